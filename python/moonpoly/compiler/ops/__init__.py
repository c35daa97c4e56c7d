"""Tensor expressions of operators that Relax has no operator for, one file for each family."""
