"""A process that has the GPU, so that a kernel that crashes or hangs ends that process only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tvm.support.popen_pool import PopenWorker

from moonpoly.autotune.interrupt import ignore_in_worker
from moonpoly.error import MoonPolyError, TuneError

_TIMEOUT_S = 60.0
_CALLS_PER_PROCESS = 200


class GpuProcess:
    """Runs functions one at a time. Used as a context; a process that died is replaced."""

    def __init__(self) -> None:
        self._worker = PopenWorker(ignore_in_worker, maximum_uses=_CALLS_PER_PROCESS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._worker.kill()

    def ask(self, what: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Return what the function returns there; ``what`` names it in errors.

        Raises
        ------
        TuneError
            If it fails, or takes longer than a minute.
        """
        try:
            self._worker.send(function, arguments, {}, _TIMEOUT_S)
            return self._worker.recv()
        except TimeoutError as err:
            self._worker.kill()
            raise TuneError(f"{what}: no result within {_TIMEOUT_S:g} s") from err
        except (MoonPolyError, ChildProcessError, RuntimeError, ValueError, TypeError) as err:
            # A kernel that failed on the GPU takes its process's whole context with it.
            self._worker.kill()
            reason = str(err).strip().splitlines()[-1]
            raise TuneError(f"{what}: {reason}") from err
