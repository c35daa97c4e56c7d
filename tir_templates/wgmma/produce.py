"""The producer's side of a block: it fills the ring for one tile after the other."""

from __future__ import annotations

from tvm.script import tirx as T

from .barriers import await_cluster
from .config import BARRIER_LOADERS, BARRIER_READY, PRODUCER_REGISTERS, RESIDUE_COPIERS, WgmmaConfig
from .load_residue import arrivals, copy_residues, place_residues
from .load_strided import load_strided
from .load_tma import expect, load_tma
from .walk import next_tile


def producer(c: WgmmaConfig):
    """Return an inline function for all threads behind the consumers'.

    It takes a :class:`~.block.Block` and the operands along p and q, each an
    :class:`~.block.Operand`.
    """
    fill = {"tma": _by_maps, "residue": _by_residues, "strided": _by_loads}[c.loads](c)

    @T.inline
    def produce(b, p, q, k):
        if c.trades_registers:
            T.ptx["setmaxnreg.dec.sync.aligned.u32"](PRODUCER_REGISTERS)
        if c.loads != "tma":
            # Unlike the thread that made the barriers, these must be told that they exist.
            T.ptx.bar.sync(BARRIER_LOADERS, c.producer_threads)
        # The consumers wait for the barriers; the first copies don't wait for the consumers.
        T.cuda.warp_sync()
        T.ptx.bar.arrive(BARRIER_READY, c.threads)
        if c.cluster > 1:
            # No block may copy into another's ring before that one's barriers exist.
            await_cluster()
        fill(b, p, q, k)

    return produce


def prepare(c: WgmmaConfig):
    """Return an inline function that one thread begins the kernel with, before all else."""

    def prefetch(maps):
        for each in maps if c.loads != "strided" else ():
            T.evaluate(T.ptx.prefetch.tensormap(T.address_of(each)))

    @T.inline
    def begin(p, q):
        prefetch(p.maps)
        prefetch(q.maps)
        # What may overlap this kernel starts now: it waits before it touches memory.
        T.ptx.griddepcontrol.launch_dependents()

    return begin


def _by_maps(c: WgmmaConfig):
    load, step_on, loader = load_tma(c), next_tile(c), c.consumers * 4

    @T.inline
    def fill(b, p, q, k):
        if b.warp == loader and T.cuda.elect_sync() != T.uint32(0):
            expected = T.alloc_local([1], "int32")
            expected[0] = 1
            expect(b, 0)
            T.ptx.griddepcontrol.wait()
            while b.work[0] < b.tiles:
                load(b, expected, p.maps[0], q.maps[0])
                step_on(b, b.stride)
        T.cuda.warp_sync()

    return fill


def _by_residues(c: WgmmaConfig):
    copy_p, copy_q = (copy_residues(c, along_p=along_p) for along_p in (True, False))
    place, loader = place_residues(c), c.consumers * 4

    @T.inline
    def fill(b, p, q, k):
        T.ptx.griddepcontrol.wait()
        raw_full, raw_empty = T.meta_var(arrivals(c, b.smem))
        if b.warp >= loader + RESIDUE_COPIERS:
            place(b, p, q, raw_full, raw_empty, b.tx - (c.consumer_threads + RESIDUE_COPIERS * 32))
        if b.warp == loader and T.cuda.elect_sync() != T.uint32(0):
            copy_p(b, p, raw_full, raw_empty)
        if b.warp == loader + 1 and T.cuda.elect_sync() != T.uint32(0):
            copy_q(b, q, raw_full, raw_empty)
        T.cuda.warp_sync()

    return fill


def _by_loads(c: WgmmaConfig):
    load, step_on = load_strided(c), next_tile(c)

    @T.inline
    def fill(b, p, q, k):
        T.ptx.griddepcontrol.wait()
        while b.work[0] < b.tiles:
            load(b, p, q, k, b.tx - c.consumer_threads)
            step_on(b, b.stride)

    return fill
