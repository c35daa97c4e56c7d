"""Dimensions: their names, which of them are equal, and what a model asks of them."""
