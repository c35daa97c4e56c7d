"""One program for several tiles: what they differ in becomes arguments of the launch.

Tiles of the same rows of the tensor cores, that divide the work among warps and blocks alike,
differ in their columns. A program holds a main loop for each number of columns, so that one
micro-kernel fills the GPU exactly at many more shapes. It costs a launch 0.02 to 0.09 µs. How
blocks share loads is not such an argument: it cost up to 0.09 µs in every step.

Where the reduction is cut, tiles are swapped: their columns are rows of C, and so of the partial
sums, which then lie alike however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .config import WgmmaConfig
from .shared_memory import MAX_BLOCK_BYTES, RESERVED_BYTES, SHARED_BYTES


@dataclass(frozen=True)
class Ring:
    """The shared memory of a tile's launches.

    Parameters
    ----------
    base_bytes
        Before the slots.
    slot_bytes
        Of one slot.
    least_bytes
        Of a block, however few slots it has.
    slots
        At most.
    """

    base_bytes: int
    slot_bytes: int
    least_bytes: int
    slots: int

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block with all slots."""
        return self.base_bytes + self.slots * self.slot_bytes


def alike(tile: WgmmaConfig) -> tuple[Any, ...]:
    """Return what tiles of one program have in common; of others it is all that they are."""
    if tile.loads != "tma" or (tile.split and not tile.swapped):
        return (tile,)
    kind = tile.rows, tile.swapped, tile.split, tile.pingpong, tile.consumers
    work = tile.blocks, tile.threads, tile.cluster_p, tile.cluster_q
    return (*kind, *work, tile.dtype, tile.out_dtype)


def merge(tiles: Sequence[WgmmaConfig]) -> WgmmaConfig:
    """Return the program of tiles that are alike; of a single one, itself."""
    if len(set(tiles)) == 1:
        return tiles[0]
    widest = max(tiles, key=lambda tile: tile.columns)
    return replace(
        widest,
        stages=max(tile.stages for tile in tiles),
        widths=tuple(sorted({tile.columns for tile in tiles})),
    )


def merge_alike(tiles: Iterable[WgmmaConfig]) -> dict[WgmmaConfig, tuple[WgmmaConfig, ...]]:
    """Return the programs of many tiles, each with its tiles, in the order of their first ones."""
    groups: dict[tuple[Any, ...], list[WgmmaConfig]] = {}
    for tile in tiles:
        groups.setdefault(alike(tile), []).append(tile)
    return {merge(group): tuple(group) for group in groups.values()}


def ring_of(program: WgmmaConfig, tile: WgmmaConfig) -> Ring:
    """Return the shared memory of a tile in a program that it shares with others."""
    base, slot = program.arrival_offset, tile.arrival_bytes
    room = min(MAX_BLOCK_BYTES, SHARED_BYTES // tile.blocks - RESERVED_BYTES)
    slots = min(tile.stages, (room - base) // slot)
    sums = tile.sum_bytes if tile.split else 0
    return Ring(base, slot, max(base + slot, program.ring_offset + sums), slots)
