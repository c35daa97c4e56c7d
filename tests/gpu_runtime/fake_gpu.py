"""A GPU that the host plays: see ``fake_driver.cc``."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np

SOURCE = Path(__file__).with_name("fake_driver.cc")
CUDA = 2  # DLPack's device type
NUM_SMS = 132
# DLPack's code of every type that the launcher takes.
CODES = {"float16": 2, "float32": 2, "bfloat16": 4, "float8_e4m3fn": 10, "int8": 0, "int32": 0}
NUMPY = {"tf32": np.float32, "bfloat16": ml_dtypes.bfloat16}
NUMPY |= {"float8_e4m3fn": ml_dtypes.float8_e4m3fn}
MACHINE = {
    "num_sms": NUM_SMS,
    "launch_us": 1.0,
    "overlap_us": 0.6,
    "overlap_limit_us": 40.0,
    "l2_bytes": 60e6,
    "l2_gbs": 5500,
    "dram_gbs": 4300,
}
LOADS = (0.01, 0.5, 1.0, 2.0, 4.0)
DEPTHS = (64, 1024, 16384)


def build(folder: Path) -> Path | None:
    """Compile the driver; None where there is no C++ compiler."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        return None
    library = folder / "libfake_cuda.so"
    command = [compiler, "-std=c++17", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True)
    return library


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


_ALIVE: list[object] = []


class OnGpu:
    """An array that says, through DLPack, that it lies on a GPU."""

    def __init__(self, array: np.ndarray, device: int = 0, kind: int = CUDA) -> None:
        self.array = array
        self.dtype = array.dtype
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        strides = (ctypes.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
        dtype = _Type(CODES[array.dtype.name], array.dtype.itemsize * 8, 1)
        tensor = _Tensor(
            array.ctypes.data, _Device(kind, device), array.ndim, dtype, shape, strides, 0
        )
        self._managed = _Managed(tensor, None, None)
        self._device = (kind, device)
        # Consumers read the description until they let go of it, which nothing here hears of.
        _ALIVE.append((self._managed, array, shape, strides))

    def __dlpack__(self, *, stream=None, **_):
        return _capsule(ctypes.addressof(self._managed), b"dltensor", None)

    def __dlpack_device__(self):
        return self._device


def numpy_type(dtype: str) -> np.dtype:
    """Return the type of an array that holds items of a workload's type."""
    return np.dtype(NUMPY.get(dtype, dtype))


def aligned(shape, fill=np.nan, offset=0, dtype="float16") -> np.ndarray:
    """Return an array that begins ``offset`` elements after a multiple of 256 bytes."""
    count = int(np.prod(shape))
    raw = np.empty(count + offset + 256, numpy_type(dtype))
    start = -raw.ctypes.data % 256 // raw.itemsize + offset
    out = raw[start : start + count].reshape(shape)
    out[...] = fill
    return out


_BY_ITEMS = ["a", "a_skip", "a_m", "a_k", "b", "b_skip", "b_n", "b_k"]
_BY_ROWS = ["a", "a_skip", "a_m", "b", "b_skip", "b_n"]


def operands_of(loads: str, dtype: str) -> list[str]:
    """Return the arguments that tell a kernel of A and B, as it loads them."""
    if loads == "tma":
        return ["x_map", "y_map"]
    if loads == "residue":
        residues = min(16 // numpy_type(dtype).itemsize, 8)
        maps = [f"{x}_map{i or ''}" for x in "xy" for i in range(residues)]
        return [*maps, "a_skip", "a_m", "b_skip", "b_n"]
    return _BY_ROWS if loads in ("async", "direct") else _BY_ITEMS


def kernel(
    um,
    un,
    *,
    loads="tma",
    swapped=False,
    split=False,
    cluster=(1, 1),
    fixed_us=2.0,
    step_us=None,
    load_axis=LOADS,
    depth_axis=DEPTHS,
    types=("float16", "float16"),
):
    """Return a manifest's entry with costs of a made-up GPU, and the code that plays it."""
    name = f"gemm_f16_{um}x{un}" + "_t" * swapped + "_k" * split
    name += f"_c{cluster[0]}{cluster[1]}" * (cluster != (1, 1)) + f"_{loads}" * (loads != "tma")
    # A tile's step costs its area and its perimeter: big tiles are the better ones when full.
    step_us = step_us or (um * un + 40 * (um + un)) * 1.2e-6
    us = [
        fixed_us + max(1.0, np.ceil(load)) * (0.4 + k * step_us * (0.6 + 0.4 * min(load, 1.0)))
        for k in depth_axis
        for load in load_axis
    ]
    cost = {"us": us}
    if split:
        cost |= {"cluster_us": [0, 0.5, 0.6, 0.8], "slices_us": 1.0, "slice_us": 0.05}
    rows, columns = (un, um) if swapped else (um, un)
    residues = 8 if loads == "residue" else 1
    boxes = rows // cluster[1] // residues, columns // cluster[0] // residues
    entry = {
        "name": name,
        "loads": loads,
        "um": um,
        "un": un,
        "swapped": swapped,
        "cluster_p": cluster[0],
        "cluster_q": cluster[1],
        "split": split,
        "threads": 384,
        "smem_bytes": 65536,
        "blocks": 1,
        "box_x": boxes[0],
        "box_y": boxes[1],
        "cost": cost,
    }
    return played(entry, types)


def played(entry, types=("float16", "float16")):
    """Return a manifest's entry with what only running it needs, and the code that plays it."""
    loads, split = entry["loads"], entry["split"]
    params = [*operands_of(loads, types[0]), "c", "m", "n", "k", "ldc", "vector_c", "grid"]
    if split:
        workspace = ["workspace", "counters", "cluster", "slices"]
        many = loads == "gemv" and entry["um"] * entry["un"] > 8
        params += ["cluster"] if many else workspace
    names = ("um", "un", "box_x", "box_y", "swapped", "cluster_p", "cluster_q", "split")
    image = " ".join(map(str, (*(int(entry.get(name, 0)) for name in names), *types)))
    running = {"symbol": loads, "cubin": f"{entry['name']}.cubin", "params": params}
    return entry | running, image.encode() + b"\0"


def widths(*tiles, **options):
    """Return kernels that one compiled function stands behind: its columns are an argument."""
    kernels = [kernel(um, un, **options)[0] for um, un in tiles]
    um, un = map(max, zip(*tiles, strict=True))
    widest, image = kernel(um, un, **options)
    shared = {
        "symbol": "columns",
        "cubin": f"{widest['name']}_columns.cubin",
        "params": [*widest["params"], "columns", "q_groups"],
    }
    # The last one needs the least.
    return [
        (entry | shared | {"smem_bytes": 65536 - 1024 * number}, image)
        for number, entry in enumerate(kernels)
    ]


def artifact(*kernels, **changes):
    """Return a manifest as JSON and the code of its kernels."""
    manifest = {
        "schema": 1,
        "target": {"name": "cuda-sm90a"},
        "op": "gemm",
        "dtype": "float16",
        "out_dtype": "float16",
        "grid": {"k": list(DEPTHS), "load": list(LOADS)},
        "machine": MACHINE,
        "kernels": [entry for entry, _ in kernels],
    }
    images = {entry["cubin"]: image for entry, image in kernels}
    return json.dumps(manifest | changes), images
