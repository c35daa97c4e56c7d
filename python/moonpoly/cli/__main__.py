"""``python -m moonpoly.cli``."""

from moonpoly.cli import main

main()
