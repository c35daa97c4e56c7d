"""The parent's side of a worker process."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Any

from moonpoly.error import MoonPolyError

EXTRA = "pip install 'moonpoly[bench]'"

# Left in the environment, these would tune (or cripple) one contender and not the others.
_FOREIGN_PREFIXES = (
    "OPENBLAS_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "DNNL_",
    "ONEDNN_",
    "TVM_",
)
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TVM_NUM_THREADS",
    "MOONPOLY_NUM_THREADS",
)
# An idle pool spins for tens (OpenBLAS) or hundreds (TVM) of milliseconds by default. These values
# still bridge back-to-back calls and give the cores back sooner to whoever has the next turn.
_FIXED = {
    "OPENBLAS_THREAD_TIMEOUT": "20",
    "TVM_THREAD_POOL_SPIN_COUNT": "10000",
    # torch allocates its outputs; huge pages save it the page faults that `out=` saves the others.
    "THP_MEM_ALLOC_ENABLE": "1",
}


def environment(threads: int) -> dict[str, str]:
    """The environment that every contender gets: `threads` threads and no foreign tuning."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN_PREFIXES)}
    fixed = _FIXED | dict.fromkeys(_THREAD_VARIABLES, str(threads))
    return kept | fixed


class BenchmarkError(MoonPolyError):
    """A contender is missing or broke."""

    exit_code = 10


class Peer:
    """A long-lived worker process, driven over its pipes; it sleeps between requests.

    Parameters
    ----------
    name
        Contender, see `moonpoly.benchmarks.contenders`.
    threads
        Number of threads that it may use.
    module
        Worker module to run.
    limit_s
        Seconds after which a request without an answer counts as hung, and the process is ended.

    Raises
    ------
    BenchmarkError
        If the contender is not installed, hangs, or its process ends unexpectedly.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        module: str = "moonpoly.benchmarks.worker",
        limit_s: float | None = None,
    ) -> None:
        self.name = name
        self._limit_s = limit_s
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the peer
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment(threads),
        )
        hello = self._receive("start")
        if "missing" in hello:
            self.close()
            raise BenchmarkError(
                f"contender '{name}' needs the package '{hello['missing']}', "
                f"which is not installed; run: {EXTRA}"
            )
        self.idle_cpu_s = 0.0
        self.settle_s = 0.0
        self.facts: dict[str, str] = self._strip(self.ask("facts"))

    @staticmethod
    def _strip(reply: dict[str, Any]) -> dict[str, str]:
        return {k: v for k, v in reply.items() if k not in ("idle_cpu_s", "settle_s")}

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request, wait for its reply."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing reply says why
        reply = self._receive(command)
        self.idle_cpu_s += reply["idle_cpu_s"]
        self.settle_s += reply["settle_s"]
        return reply

    def _receive(self, command: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        self._await_answer(command)
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            last = (self._errors.read().strip().splitlines() or ["no message"])[-1]
            raise BenchmarkError(f"contender '{self.name}' ended with code {code}: {last}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _await_answer(self, command: str) -> None:
        # A worker writes one line for each request, so none is left in the text buffer.
        with selectors.DefaultSelector() as selector:
            assert self._process.stdout is not None
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if selector.select(self._limit_s):
                return
        self._process.kill()
        raise BenchmarkError(
            f"contender '{self.name}' gave no answer to '{command}' in {self._limit_s:g} s"
        )

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
