"""One product by one compiled kernel on the GPU of this machine: checked, and timed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from moonpoly.autotune.gpu.compile import Kernel
from moonpoly.autotune.gpu.program import TileConfig
from moonpoly.error import TuneError
from moonpoly.gpu_driver import Device
from moonpoly.tir_templates.items import ALIGNED_BYTES, OUTPUT_BYTES
from moonpoly.tir_templates.wgmma.config import WgmmaConfig

# Room for each operand, and for partial sums.
OPERAND_BYTES = 384 << 20
WORKSPACE_BYTES = 64 << 20
_COUNTER_BYTES = 4 << 20
# Random operands repeat after so many bytes.
_BLOCK_BYTES = 16 << 20
_SEED = 3

# Relative to the norm of the result, each entry no less than the root of its terms' squares: what
# 11 (8) bits of a rounded item leave, doubled; nothing of integers. tf32 rounds its operands so.
_TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-3, "int32": 1e-12}
_NUMPY = {"tf32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
_NUMPY |= {"float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn)}

# Tensor cores cut terms of 8-bit floats off 13 bits behind the leading one of the largest, the sum
# so far included (docs/gpu.md). Integers whose sums stay below this are added up exactly.
_EXACT_SUM = 1 << 14
_LARGEST_INTEGER = 2


@dataclass(frozen=True)
class Launch:
    """A product and how many blocks share one tile of it.

    Parameters
    ----------
    m, n, k
        The problem shape.
    cluster, slices
        Blocks of a cluster, and clusters, that share the reduction of a tile.
    """

    m: int
    n: int
    k: int
    cluster: int = 1
    slices: int = 1


def tiles_of(config: TileConfig, launch: Launch) -> int:
    """Return the tiles of a product, counting those that fill up clusters."""
    along_m, along_n = cluster_of(config)
    return (
        _ceil(launch.m, config.um * along_m) * _ceil(launch.n, config.un * along_n) * config.cluster
    )


def cluster_of(config: TileConfig) -> tuple[int, int]:
    """Return the tiles along m and along n that one cluster covers."""
    p, q = config.cluster_p, config.cluster_q
    return (q, p) if config.swapped else (p, q)


def grid_of(config: TileConfig, launch: Launch, slots: int) -> int:
    """Return the blocks of a launch on a GPU that holds ``slots`` of them at once."""
    tiles = tiles_of(config, launch)
    if config.split:
        return tiles * launch.cluster * launch.slices
    return min(tiles, slots // config.cluster * config.cluster)


class Bench:
    """Operands on the GPU, and kernels loaded once.

    Raises
    ------
    TargetError
        If there is no GPU.
    """

    def __init__(self, dtype: str) -> None:
        self.device = Device()
        self._item = numpy_dtype(dtype)
        self._dtype = dtype
        self._a, self._b, self._c = (self.device.allocate(OPERAND_BYTES) for _ in range(3))
        self._workspace = self.device.allocate(WORKSPACE_BYTES)
        self._counters = self.device.allocate(_COUNTER_BYTES)
        self.device.write(self._counters, bytes(_COUNTER_BYTES))
        rng = np.random.default_rng(_SEED)
        # Different ones: products of a matrix with itself are symmetric, and their sums add up.
        count = _BLOCK_BYTES // self._item.itemsize
        self._random = {
            start: random_items(rng, count, self._item).tobytes() for start in (self._a, self._b)
        }
        for start, block in self._random.items():
            for offset in range(0, OPERAND_BYTES, len(block)):
                self.device.write(start + offset, block)

    def load(self, kernel: Kernel, image: bytes) -> tuple[ctypes.c_void_p, int]:
        """Return a kernel's function and how many of its blocks plans may count on at once."""
        config = kernel.program.config
        function = self.device.load(image, kernel.symbol, config.shared_bytes)
        blocks = self.device.resident_blocks(function, config.threads, config.shared_bytes)
        if blocks < config.blocks:
            raise TuneError(f"{kernel.program.name}: only {blocks} blocks fit a multiprocessor")
        return function, config.blocks * self.device.num_sms

    def launcher(
        self,
        kernel: Kernel,
        function: ctypes.c_void_p,
        slots: int,
        launch: Launch,
        *,
        overlap: bool = False,
    ) -> Callable[[], None]:
        """Return a function that launches a kernel on random operands."""
        config = kernel.program.config
        stride = _row_items(config, launch.k)
        largest = max(launch.m, launch.n) * stride * self._item.itemsize
        if max(largest, launch.m * launch.n * OUTPUT_BYTES[config.out_dtype]) > OPERAND_BYTES:
            raise TuneError(f"{launch} is larger than the operands that are measured with")
        if launch.slices > 1 and self._sums_bytes(config, launch) > WORKSPACE_BYTES:
            raise TuneError(f"{launch} has more partial sums than there is room for")
        grid = grid_of(config, launch, slots)
        values = self._values(config, launch, stride, grid)
        return self.device.launcher(
            function,
            [values[name] for name in kernel.parameters],
            grid=grid,
            threads=config.threads,
            shared_bytes=config.shared_bytes,
            cluster=launch.cluster if config.split else config.cluster,
            overlap=overlap,
        )

    def check(self, kernel: Kernel, function: ctypes.c_void_p, slots: int, launch: Launch) -> None:
        """Compare one product with NumPy's, of integers where sums of others are inexact.

        Raises
        ------
        TuneError
            If they differ, or an item of C was not written.
        """
        if self._dtype != "float8_e4m3fn":
            self._check(kernel, function, slots, launch)
            return
        if launch.k * _LARGEST_INTEGER**2 >= _EXACT_SUM:
            raise TuneError(f"{launch} is too long to be added up exactly")
        rng = np.random.default_rng(_SEED)
        count = max(launch.m, launch.n) * _row_items(kernel.program.config, launch.k)
        for start in self._random:
            integers = rng.integers(-_LARGEST_INTEGER, _LARGEST_INTEGER + 1, count)
            self.device.write(start, integers.astype(self._item).tobytes())
        try:
            self._check(kernel, function, slots, launch)
        finally:
            for start, block in self._random.items():
                self.device.write(start, block[:count])

    def _check(self, kernel: Kernel, function: ctypes.c_void_p, slots: int, launch: Launch) -> None:
        config = kernel.program.config
        num_bytes = launch.m * launch.n * numpy_dtype(config.out_dtype).itemsize
        self.device.write(self._c, b"\xff" * num_bytes)
        self.launcher(kernel, function, slots, launch)()
        found = self.result(launch, config.out_dtype)
        a, b = self.operands(launch, _row_items(config, launch.k))
        expected = a @ b.T
        # A single sum may cancel to nothing: then what was added up is its size.
        size = np.maximum(np.abs(expected), np.sqrt((a * a) @ (b * b).T))
        error = float(np.linalg.norm(found - expected) / np.linalg.norm(size))
        if not error < _TOLERANCE[config.out_dtype]:
            raise TuneError(f"{kernel.program.name} is wrong by {error:.2g} at {launch}")

    def result(self, launch: Launch, out_dtype: str) -> np.ndarray:
        """Return C of the last launch, float64 of shape (m, n)."""
        return self._read(self._c, launch.m * launch.n, numpy_dtype(out_dtype)).reshape(
            launch.m, launch.n
        )

    def operands(self, launch: Launch, stride: int) -> tuple[np.ndarray, np.ndarray]:
        """Return A (m, k) and B (n, k) of a launch, float64, from rows ``stride`` items apart."""
        a, b = (
            self._read(start, rows * stride, self._item).reshape(rows, stride)[:, : launch.k]
            for start, rows in ((self._a, launch.m), (self._b, launch.n))
        )
        return a, b

    def _read(self, start: int, count: int, dtype: np.dtype[Any]) -> np.ndarray:
        data = self.device.read(start, count * dtype.itemsize)
        return np.frombuffer(data, dtype).astype(np.float64)

    def _values(self, config: TileConfig, launch: Launch, stride: int, grid: int) -> dict[str, Any]:
        m, n, k = launch.m, launch.n, launch.k
        widest = ALIGNED_BYTES // OUTPUT_BYTES[config.out_dtype]
        values: dict[str, Any] = {
            "a": ctypes.c_uint64(self._a),
            "b": ctypes.c_uint64(self._b),
            "c": ctypes.c_uint64(self._c),
            "workspace": ctypes.c_uint64(self._workspace),
            "counters": ctypes.c_uint64(self._counters),
            **{name: ctypes.c_int64(stride) for name in ("a_m", "b_n")},
            **{name: ctypes.c_int64(1) for name in ("a_k", "b_k")},
        }
        numbers = {
            "m": m,
            "n": n,
            "k": k,
            "ldc": n,
            "vector_c": widest if n % widest == 0 else 2 - n % 2,
            "grid": grid,
            "depth": config.stages,
            "cluster": launch.cluster,
            "slices": launch.slices,
            "part_steps": _ceil(k, config.step) // (launch.cluster * launch.slices),
            "longer_parts": _ceil(k, config.step) % (launch.cluster * launch.slices),
            "a_skip": 0,
            "b_skip": 0,
        }
        values |= {name: ctypes.c_int32(number) for name, number in numbers.items()}
        if not isinstance(config, WgmmaConfig):
            return values
        x, y = ((self._b, n), (self._a, m)) if config.swapped else ((self._a, m), (self._b, n))
        for name, (address, rows), box in (("x", x, config.box_x), ("y", y, config.box_y)):
            if config.loads == "strided":
                continue
            for residue in range(config.residues):
                values[f"{name}_map{residue or ''}"] = self._map(
                    address, k, rows, stride, (config.box_items, box), config.residues, residue
                )
        return values

    def _map(
        self,
        address: int,
        k: int,
        rows: int,
        stride: int,
        box: tuple[int, int],
        residues: int,
        first: int,
    ) -> Any:
        """Return the map of every ``residues``-th row from ``first`` on.

        Where there is no such row, of the first one: a kernel stores nothing of what it loads then.
        """
        pitch = stride * self._item.itemsize
        start = address + (first if first < rows else 0) * pitch
        over = start % ALIGNED_BYTES
        return self.device.tensor_map(
            self._dtype,
            start - over,
            k + over // self._item.itemsize,
            max(1, _ceil(rows - first, residues)),
            pitch * residues,
            box,
            swizzled=residues == 1,
        )

    def _sums_bytes(self, config: TileConfig, launch: Launch) -> int:
        return tiles_of(config, launch) * launch.slices * config.um * config.un * 4


@cache
def bench(dtype: str) -> Bench:
    """Return this process's operands, made once."""
    return Bench(dtype)


def _row_items(config: TileConfig, k: int) -> int:
    """Return the items from row to row: one tensor map needs multiples of 16 bytes."""
    aligned = config.item.aligned
    return _ceil(k, aligned) * aligned if config.loads in ("tma", "gemv", "async") else k


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return the type of an array that holds a workload's items: float32 of tf32."""
    return _NUMPY.get(dtype) or np.dtype(dtype)


def random_items(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return random items of a type: between -1 and 1, or of integers all."""
    if dtype == np.int8:
        return rng.integers(-128, 128, count, np.int8)
    return rng.uniform(-1, 1, count).astype(dtype)


def _ceil(value: int, by: int) -> int:
    return -(-value // by)
