"""Hopper tile programs in TIRx: copies into a ring of shared memory, tensor cores, stores.

In the order of the data: ``config`` (a tile's sizes and its shared memory), ``walk`` (which tile a
block works on), ``barriers``, ``load_tma`` and ``load_strided`` (the producer), ``multiply`` (the
consumer warpgroups), ``store`` with ``copy_rows``, ``partial_sums`` and ``reduce`` (their
epilogues), ``kernel`` (all of it, as one PrimFunc).

Each of these is a function of a :class:`~.config.WgmmaConfig` that returns an inline function of
the tile program; Python values of the configuration are constants in the generated code.
"""
