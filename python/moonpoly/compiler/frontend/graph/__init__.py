"""The graph around a node: what its names mean, its subgraphs, and what a converter is told."""
