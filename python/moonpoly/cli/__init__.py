"""The command line: every command parses its options, makes one library call, and prints."""

from moonpoly.cli.app import main

__all__ = ["main"]
