"""The host's gemm artifact as a kernel set, for the benchmarks that call the library directly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

PACKED, ROW, TRANSPOSED = 0, 1, 2
B_MODES = {"constant": PACKED, "row": ROW, "transposed": TRANSPOSED}


@dataclass(frozen=True)
class Kernels:
    """A loaded kernel set and what its manifest says."""

    handle: Any
    manifest: dict[str, Any]
    library: Any

    @property
    def panel(self) -> int:
        """Columns of a packed panel of B."""
        return int(self.manifest["panel"])

    def describe(self) -> dict[str, str]:
        """The artifact as printable pairs."""
        return {
            "version": f"moonpoly {self.manifest['moonpoly']}",
            "kernels": f"{len(self.manifest['kernels'])} for {self.manifest['target']['name']}",
            "artifact": self.manifest["digest"][:12],
        }


def load_kernels(threads: int) -> Kernels:
    """Load (and on first use build) the host's float32 gemm artifact; use `threads` threads."""
    import tvm_ffi

    from moonpoly import _ffi_api, autotune
    from moonpoly.target import host_target
    from moonpoly.workload import Workload

    artifact = autotune.load_artifact(host_target().with_num_pes(threads), Workload())
    _ffi_api.set_num_threads(threads)
    library = tvm_ffi.load_module(str(artifact.lib_path))
    handle = _ffi_api.KernelSet(json.dumps(artifact.manifest), library)
    return Kernels(handle, artifact.manifest, library)


def constant_b_mode(kernels: Kernels, b: npt.NDArray[np.float32]) -> int:
    """Return the layout that the compiler gives a constant `b` (k, n)."""
    from moonpoly.compiler.passes.pack_weight import is_narrow

    return TRANSPOSED if is_narrow(b.shape[1], kernels.panel) else PACKED


def prepare_b(kernels: Kernels, b: npt.NDArray[np.float32], b_mode: int) -> Any:
    """Return the tensor to pass as B for row-major `b` (k, n) in `b_mode`.

    Packed: the panels (⌈n/panel⌉, k, panel). Row: `b` itself. Transposed: a copy as (n, k).
    """
    import tvm_ffi

    from moonpoly import _ffi_api

    if b_mode == PACKED:
        return _ffi_api.pack_b(tvm_ffi.from_dlpack(b), False, kernels.panel)
    if b_mode == ROW:
        return tvm_ffi.from_dlpack(b)
    return tvm_ffi.from_dlpack(np.ascontiguousarray(b.T))
