"""Which launches of a kernel are timed: spread over k, the load, the tiles' aspect and the cuts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from moonpoly.autotune.gpu.compile import Kernel
from moonpoly.autotune.gpu.cost_model import CLUSTERS, LaunchSample, log_uniform
from moonpoly.autotune.gpu.launch import Launch, cluster_of, grid_of
from moonpoly.schedules.cuda import MAX_SLICES
from moonpoly.tir_templates.wgmma.config import WgmmaConfig

_MAX_K, _MAX_LOAD = 16384, 9.0
# A launch takes a few hundred microseconds at most, and its operands fit the memory set aside.
_MAX_OPERATIONS = 2e11
_MAX_ITEMS = 60 << 20
_SEED = 19
_PROBES = ((64, 1.0), (256, 1.0), (1024, 1.0), (4096, 1.0), (256, 4.0), (1024, 4.0), (256, 0.02))


def plan_samples(kernel: Kernel, slots: int, count: int, cuts: int) -> Iterator[Launch]:
    """Yield ``count`` launches with whole reductions, then ``cuts`` with cut ones."""
    config = kernel.program.config
    rng = np.random.default_rng(_SEED)
    fixed = [(k, load, 1.0) for k, load in _PROBES]
    left = count
    while left:
        if fixed:
            k, load, aspect = fixed.pop()
        else:
            k = round(log_uniform(rng, 8, _MAX_K))
            load = log_uniform(rng, 0.5 / slots, _MAX_LOAD)
            aspect = log_uniform(rng, 1 / 16, 16)
            # Full waves are what plans are made of.
            load = float(np.ceil(load)) if rng.random() < 0.4 else load
        launch = shaped(config, slots, k, load, aspect)
        if launch is not None:
            left -= 1
            yield launch
    left = cuts if config.split else 0
    while left:
        cluster = int(rng.choice(CLUSTERS))
        many = config.slices and cluster == CLUSTERS[-1]
        slices = int(rng.choice([1, 1, 1, 2, 4, 8, MAX_SLICES])) if many else 1
        k = round(log_uniform(rng, 64, 2048)) * cluster * slices
        launch = shaped(config, slots, k, log_uniform(rng, 0.02, 1.0) / cluster / slices, 1.0)
        if launch is not None and cluster * slices > 1:
            left -= 1
            yield Launch(launch.m, launch.n, launch.k, cluster, slices)


def shaped(config: WgmmaConfig, slots: int, k: int, load: float, aspect: float) -> Launch | None:
    """Return a product that makes about so many tiles, or None if it would be too large."""
    along_m, along_n = cluster_of(config)
    clusters = max(1.0, load * slots / config.cluster)
    m_tiles = max(1, round((clusters * aspect * config.un / config.um) ** 0.5))
    n_tiles = max(1, int(clusters / m_tiles + 1e-9))
    m, n = m_tiles * along_m * config.um, n_tiles * along_n * config.un
    if config.loads != "strided":
        k = max(config.item.aligned, k // config.item.aligned * config.item.aligned)
    if 2.0 * m * n * k > _MAX_OPERATIONS or max(m * k, n * k, m * n) > _MAX_ITEMS:
        return None
    return Launch(m, n, k)


def sample_of(config: WgmmaConfig, launch: Launch, slots: int, us: float) -> LaunchSample:
    """Return what the cost model learns from a timed launch."""
    along_m, along_n = cluster_of(config)
    m_tiles = -(-launch.m // (config.um * along_m)) * along_m
    n_tiles = -(-launch.n // (config.un * along_n)) * along_n
    blocks = m_tiles * n_tiles * launch.cluster * launch.slices
    assert config.split is False or blocks == grid_of(config, launch, slots)
    return LaunchSample(
        k=launch.k / (launch.cluster * launch.slices),
        load=blocks / slots,
        aspect=m_tiles / n_tiles,
        cluster=launch.cluster,
        slices=launch.slices,
        us=us,
    )
