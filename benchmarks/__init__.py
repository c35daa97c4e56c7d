"""Commands that measure, each peer in a process of its own."""
