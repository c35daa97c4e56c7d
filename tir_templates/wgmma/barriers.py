"""The barriers of a block: made once by one thread, and where the blocks of a cluster meet."""

from __future__ import annotations

from tvm.script import tirx as T

from .config import RESIDUE_COPIERS, WgmmaConfig
from .load_residue import arrivals


def make_barriers(c: WgmmaConfig):
    """Return an inline function that one thread makes all barriers with."""
    # Consumers that must free a slot: in ping-pong one uses it, and each block of the cross shares.
    freed = (1 if c.pingpong else c.consumers) * (c.cluster_p + c.cluster_q - 1)
    filled = c.filling_arrivals

    @T.inline
    def make(smem, full, empty, order):
        for i in T.unroll(c.slots):
            T.ptx.mbarrier.init.shared.b64(full.ptr_to([i]), T.uint32(filled))
            T.ptx.mbarrier.init.shared.b64(empty.ptr_to([i]), T.uint32(freed))
        if c.pingpong:
            T.ptx.mbarrier.init.shared.b64(order.ptr_to([0]), T.uint32(1))
            T.ptx.mbarrier.init.shared.b64(order.ptr_to([1]), T.uint32(1))
        if c.loads == "residue":
            raw_full, raw_empty = T.meta_var(arrivals(c, smem))
            for i in T.unroll(c.stages):
                T.ptx.mbarrier.init.shared.b64(raw_full.ptr_to([i]), T.uint32(RESIDUE_COPIERS))
                T.ptx.mbarrier.init.shared.b64(raw_empty.ptr_to([i]), T.uint32(filled))
        T.ptx.fence.mbarrier_init.release.cluster()
        T.ptx.fence.proxy.async_.shared__cta()

    return make


@T.inline
def meet():
    """Wait for all threads of all blocks of the cluster; what they wrote before is seen after."""
    T.ptx["barrier.cluster.arrive.release.aligned"]()
    T.ptx["barrier.cluster.wait.acquire.aligned"]()


@T.inline
def await_cluster():
    """Wait for all threads of all blocks of the cluster, whatever they wrote."""
    T.ptx["barrier.cluster.arrive.relaxed.aligned"]()
    T.ptx["barrier.cluster.wait.acquire.aligned"]()
