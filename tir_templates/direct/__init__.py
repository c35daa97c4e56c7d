"""Products of tiles straight from global memory: mma instructions, no shared memory before them.

In the order of the data: ``config`` (a tile's sizes, and the warps that share its reduction),
``place`` (which lines and items a thread has), ``load`` (fragments of lines that start anywhere),
``multiply`` (their products), ``steps`` (both, along k), ``add_up`` (the warps' sums), ``store``
and ``kernel`` (all of it, as one PrimFunc).

There is nothing to set up before the first load and nothing to wait for but the loads, so that such
a program is short: for products that take little more than a launch, and for rows that no tensor
map describes.
"""
