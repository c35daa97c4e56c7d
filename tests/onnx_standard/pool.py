"""Worker processes that run cases; one that dies or hangs is named and replaced."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection

from onnx_standard.outcome import Outcome, Status, run_named

# Far more than the slowest case takes on a busy machine.
CASE_SECONDS = 300.0
_START_SECONDS = 300.0


def run_cases(
    names: Sequence[str],
    *,
    run: Callable[[str], Outcome] = run_named,
    workers: int = 0,
    case_seconds: float = CASE_SECONDS,
) -> Iterator[Outcome]:
    """Run cases by name, each in one of a few long-lived processes; yield outcomes as they come.

    Parameters
    ----------
    run
        Runs a case in a worker; a function that can be imported there.
    workers
        Number of processes; 0: one for each core this process may use.
    case_seconds
        How long a case may take before it counts as hung.
    """
    count = min(workers or len(os.sched_getaffinity(0)), len(names))
    waiting = list(reversed(names))
    running = [_Worker(run) for _ in range(count)]
    try:
        while running:
            ready = connection.wait([worker.pipe for worker in running], timeout=1.0)
            for worker in list(running):
                outcome = None
                if worker.pipe in ready:
                    outcome = worker.receive()
                elif worker.is_late(case_seconds):
                    outcome = worker.hung(case_seconds)
                else:
                    continue
                if outcome is not None:
                    yield outcome
                if not worker.alive:
                    running.remove(worker)
                    worker.stop()
                    if waiting:
                        running.append(_Worker(run))
                elif waiting:
                    worker.start(waiting.pop())
                else:
                    running.remove(worker)
                    worker.stop()
    finally:
        for worker in running:
            worker.stop()


class _Worker:
    """One process and what it is at."""

    def __init__(self, run: Callable[[str], Outcome]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, run), daemon=True)
        with _one_thread():
            self._process.start()
        theirs.close()
        self._case: str | None = None
        self._since = time.monotonic()
        self.alive = True

    def start(self, name: str) -> None:
        self._case, self._since = name, time.monotonic()
        # A worker that has died since its last answer is seen when its answer is read.
        with contextlib.suppress(BrokenPipeError):
            self.pipe.send(name)

    def receive(self) -> Outcome | None:
        """Return the outcome that has come; None for the news that the worker is ready."""
        try:
            outcome = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.alive = False
            self._process.join()
            if self._case is None:
                raise RuntimeError(f"a worker ended at its start: {self._ending()}") from None
            return Outcome(self._case, Status.CRASHED, self._ending())
        self._case, self._since = None, time.monotonic()
        return outcome

    def is_late(self, case_seconds: float) -> bool:
        limit = case_seconds if self._case is not None else _START_SECONDS
        return time.monotonic() - self._since > limit

    def hung(self, case_seconds: float) -> Outcome:
        self.alive = False
        if self._case is None:
            raise RuntimeError(f"a worker was not ready after {_START_SECONDS:.0f} s")
        return Outcome(self._case, Status.HUNG, f"no answer in {case_seconds:.0f} s")

    def stop(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.join()

    def _ending(self) -> str:
        code = self._process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes started inside use one thread: they share the cores among themselves."""
    before = os.environ.get("MOONPOLY_NUM_THREADS")
    os.environ["MOONPOLY_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        del os.environ["MOONPOLY_NUM_THREADS"]
        if before is not None:
            os.environ["MOONPOLY_NUM_THREADS"] = before


def _serve(pipe: connection.Connection, run: Callable[[str], Outcome]) -> None:
    _silence()
    pipe.send(None)
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        pipe.send(run(name))


def _silence() -> None:
    """Keep what the compiler's own C++ code logs of refused models out of the report."""
    with open(os.devnull, "w") as sink:
        os.dup2(sink.fileno(), 2)
