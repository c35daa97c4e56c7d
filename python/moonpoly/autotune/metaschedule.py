"""The one way in to MetaSchedule, without its slow import.

``TuneContext`` imports ``tvm.s_tir.tensor_intrin``, which parses the tensor intrinsics of every
processor and GPU that TVM knows: 18 seconds for nothing that a CPU search uses.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

import tvm.s_tir
from tvm.s_tir import meta_schedule

__all__ = ["meta_schedule", "without_intrinsics"]

_INTRINSICS = "tvm.s_tir.tensor_intrin"


@contextlib.contextmanager
def without_intrinsics() -> Iterator[None]:
    """Keep ``tvm.s_tir.tensor_intrin`` empty while in the block, if it is not loaded yet.

    The placeholder keeps the package's path, so that single intrinsic modules still import. It is
    gone afterwards: a later user of the intrinsics loads the real package.
    """
    if _INTRINSICS in sys.modules:
        yield
        return
    placeholder = ModuleType(_INTRINSICS)
    spec = importlib.util.find_spec(_INTRINSICS)
    if spec is not None and spec.submodule_search_locations is not None:
        placeholder.__path__ = list(spec.submodule_search_locations)
    sys.modules[_INTRINSICS] = placeholder
    tvm.s_tir.tensor_intrin = placeholder
    try:
        yield
    finally:
        sys.modules.pop(_INTRINSICS, None)
        del tvm.s_tir.tensor_intrin
