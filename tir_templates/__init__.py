"""Tile programs in TVMScript: the algorithm, with no machine in them."""
