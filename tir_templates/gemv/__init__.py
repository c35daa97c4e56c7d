"""A matrix times a vector on a GPU: products of one row or one column, without tensor cores.

``config`` says what a program is made of, ``kernel`` writes it out, ``load`` reads operands that
lie anywhere.
"""
