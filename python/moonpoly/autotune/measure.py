"""Build and time one schedule of a candidate, in a worker process.

Time is the processor time of the measuring thread, not wall-clock: another process on the machine
then lengthens a trial's wait, not its result.
"""

from __future__ import annotations

import functools
import mmap
import time

import numpy as np
import tvm
import tvm_ffi
from tvm.support.popen_pool import PopenWorker

from moonpoly.autotune.candidates import Candidate
from moonpoly.autotune.generate import MAIN, argument_shapes, build_module, lower_annotations
from moonpoly.autotune.interrupt import ignore_in_worker
from moonpoly.error import TuneError

# A problem is run with its large operand in cache, then from memory, so that a schedule is chosen
# for both. The operand is larger than a share of the last cache.
STREAM_BYTES = 48 << 20
_OUTER_K, _DOT_K = 256, 1024
_ROW_TILES, _COLUMN_TILES = 2, 2

_REPEATS = 4
_TIMEOUT_S = 30.0
_TRIALS_PER_PROCESS = 400
_ITEM_BYTES = 4
_HUGE_PAGE_BYTES = 2 << 20


def tuning_shape(candidate: Candidate) -> tuple[int, int, int]:
    """Return the (m, n, k) that a candidate is tuned on: the streamed operand fills memory."""
    tile = candidate.tile
    if tile.family == "outer":
        columns = STREAM_BYTES // (_OUTER_K * _ITEM_BYTES)
        return _ROW_TILES * tile.um, columns // tile.un * tile.un, _OUTER_K
    rows = STREAM_BYTES // (_DOT_K * _ITEM_BYTES)
    return rows // tile.um * tile.um, _COLUMN_TILES * tile.un, _DOT_K


class TrialWorker:
    """A process of its own in which schedules are compiled and run, so that one may crash or hang.

    Used as a context; the process starts with the first trial and is renewed now and then, because
    compiling leaks a little.
    """

    def __init__(self) -> None:
        self._worker = PopenWorker(ignore_in_worker, maximum_uses=_TRIALS_PER_PROCESS)

    def __enter__(self) -> TrialWorker:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._worker.kill()

    def seconds(
        self, candidate: Candidate, module: tvm.IRModule, target: tvm.target.Target
    ) -> list[float]:
        """Return the processor time of a scheduled kernel: operand in cache, then from memory.

        Raises
        ------
        TuneError
            If it can't be compiled, crashes or hangs.
        """
        try:
            self._worker.send(_trial, (candidate, module, target), {}, _TIMEOUT_S)
            return self._worker.recv()
        except TimeoutError as err:
            raise TuneError(f"{candidate.name}: no result within {_TIMEOUT_S:g} s") from err
        except (ChildProcessError, RuntimeError, ValueError, TypeError) as err:
            raise TuneError(f"{candidate.name}: {str(err).strip()}") from err


def huge_array(num_items: int) -> np.ndarray:
    """Return a float32 array on huge pages, filled with a number that takes no denormals."""
    size = num_items * _ITEM_BYTES
    memory = mmap.mmap(-1, size + _HUGE_PAGE_BYTES)
    memory.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(memory, dtype=np.uint8)
    start = -raw.ctypes.data % _HUGE_PAGE_BYTES
    array = raw[start : start + size].view(np.float32)
    array.fill(0.5)
    return array


def _trial(candidate: Candidate, module: tvm.IRModule, target: tvm.target.Target) -> list[float]:
    """Run in the worker: compile a schedule as the export does, and time it."""
    kernel = build_module(lower_annotations(module), target).mod[MAIN]
    return [_processor_seconds(kernel, arguments) for arguments in _arguments(candidate)]


@functools.cache
def _streamed() -> np.ndarray:
    return huge_array(STREAM_BYTES // _ITEM_BYTES)


def _arguments(candidate: Candidate) -> list[list[tvm_ffi.Tensor]]:
    """Return two argument lists: the streamed operand in cache, and from memory."""
    m, n, k = tuning_shape(candidate)
    shapes = argument_shapes(candidate, m, n, k)
    streamed = 1 if candidate.tile.family == "outer" else 0
    arrays = [
        _streamed()[: int(np.prod(shape))].reshape(shape)
        if index == streamed
        else np.full(shape, 0.5, dtype=np.float32)
        for index, shape in enumerate(shapes)
    ]
    # The first extent's stride set to zero: every panel, or row, is the same memory.
    large = arrays[streamed]
    cached = np.lib.stride_tricks.as_strided(large, large.shape, (0, *large.strides[1:]))
    return [
        [tvm_ffi.from_dlpack(cached if i == streamed else a) for i, a in enumerate(arrays)],
        [tvm_ffi.from_dlpack(a) for a in arrays],
    ]


def _processor_seconds(kernel: tvm_ffi.Function, arguments: list[tvm_ffi.Tensor]) -> float:
    """Return the least processor time of a call, in seconds."""
    kernel(*arguments)
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.thread_time()
        kernel(*arguments)
        best = min(best, time.thread_time() - start)
    return best
