"""What is known of one node: its attributes, its operands' values and types, how it fails."""
