"""Tile programs in TIRx for GPUs before Hopper: asynchronous copies, ldmatrix, mma, stores.

In the order of the data: ``config`` (a tile's sizes, its warps and its shared memory), ``load``
(steps of k into shared memory), ``multiply`` (a step's fragments and products), ``store``, ``walk``
(which tile a block works on) and ``kernel`` (all of it, as one PrimFunc). Types of items are those
of ``wgmma``.

Fragments of 32 bytes of k look the same in every type, so one program serves all of them.
"""
