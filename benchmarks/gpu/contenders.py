"""Who takes part on a GPU: ours by a plan, cuBLAS through torch, and cuBLASLt's choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from moonpoly.tir_templates.items import contiguous_access

from ..shape_lists import Problem
from .cublaslt import WORKSPACE_BYTES, Choice, CublasLt
from .operands import OperandSet
from .types import Types, multiplier

# A graph of so many calls on the operand sets, which take turns.
Capture = Callable[[Sequence[OperandSet], int], Any]


@dataclass(frozen=True)
class Stage:
    """The GPU with a stream of its own, for torch and for everybody else."""

    stream: int
    torch_stream: Any

    @staticmethod
    def open() -> Stage:
        """Take the first GPU."""
        import torch

        from moonpoly import _ffi_api

        stream = int(_ffi_api.gpu_create_stream(0))
        return Stage(stream, torch.cuda.ExternalStream(stream))

    def capture(self, enqueue: Callable[[int], None], calls: int) -> Any:
        """Return the graph of ``enqueue(0)`` to ``enqueue(calls - 1)``."""
        import torch

        from moonpoly import _ffi_api

        with torch.cuda.stream(self.torch_stream):
            _ffi_api.gpu_begin_capture(0, self.stream)
            try:
                for index in range(calls):
                    enqueue(index)
            finally:
                graph = _ffi_api.gpu_end_capture(0, self.stream)
        return graph

    def run(self, enqueue: Callable[[int], None]) -> None:
        """Run ``enqueue(0)`` to its end."""
        import torch

        with torch.cuda.stream(self.torch_stream):
            enqueue(0)
        self.torch_stream.synchronize()


class Ours:
    """Plans of the selector, or given ones."""

    def __init__(self, kernels: Any, stage: Stage, types: Types) -> None:
        self._kernels = kernels
        self._stage = stage
        self._types = types

    def plan(self, problem: Problem, *, overlap: bool, cost_model: str = "full") -> str:
        """Return the selector's plan for contiguous operands."""
        from moonpoly import _ffi_api

        return _ffi_api.gpu_plan(
            self._kernels,
            problem.m,
            problem.n,
            problem.k,
            access=access_of(problem, self._types),
            overlap=overlap,
            cost_model=cost_model,
        )

    def run(self, plan: str, operands: OperandSet) -> None:
        """Run a plan once, which also makes it ready to be captured."""
        import tvm_ffi

        from moonpoly import _ffi_api

        with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), self._stage.stream):
            _ffi_api.gpu_run_plan(self._kernels, plan, *_tensors(operands))
        self._stage.torch_stream.synchronize()

    def capture(self, plan: str, sets: Sequence[OperandSet], calls: int) -> Any:
        """Return the graph of so many calls."""
        from moonpoly import _ffi_api

        columns = [list(column) for column in zip(*map(_tensors, sets), strict=True)]
        return _ffi_api.gpu_capture_plan(self._kernels, plan, *columns, calls, self._stage.stream)


class Cublas:
    """What torch calls for a product of these types, ``torch.mm`` for most."""

    def __init__(self, stage: Stage, types: Types) -> None:
        self._stage = stage
        self._multiply = multiplier(types)

    def run(self, operands: OperandSet) -> None:
        """Run once, which also lets torch allocate its workspace."""
        self._stage.run(self._enqueue([operands]))

    def capture(self, sets: Sequence[OperandSet], calls: int) -> Any:
        """Return the graph of so many calls."""
        return self._stage.capture(self._enqueue(sets), calls)

    def _enqueue(self, sets: Sequence[OperandSet]) -> Callable[[int], None]:
        triples = [(each.a, each.b.t(), each.c) for each in sets]

        def enqueue(index: int) -> None:
            a, b, c = triples[index % len(triples)]
            self._multiply(a, b, c)

        return enqueue


class Lt:
    """The choices of cuBLASLt's heuristic."""

    def __init__(self, stage: Stage) -> None:
        import torch

        self._stage = stage
        self._workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        self.library = CublasLt(self._workspace.data_ptr())

    def captures(self, problem: Problem, types: Types, count: int) -> list[Capture]:
        """Return a way to capture each of up to `count` choices, in the heuristic's order."""
        product = self.library.product(problem.m, problem.n, problem.k, types)

        def of(choice: Choice) -> Capture:
            def capture(sets: Sequence[OperandSet], calls: int) -> Any:
                addresses = [(s.a.data_ptr(), s.b.data_ptr(), s.c.data_ptr()) for s in sets]

                def enqueue(index: int) -> None:
                    place = addresses[index % len(addresses)]
                    product.run(choice, *place, self._stage.stream)

                return self._stage.capture(enqueue, calls)

            return capture

        return [of(choice) for choice in product.choices(count)]


def access_of(problem: Problem, types: Types) -> str:
    """Return how contiguous operands of a problem can be read."""
    # A single row begins where the allocation does.
    if max(problem.m, problem.n) == 1:
        return "tma"
    return contiguous_access(problem.k, types.aligned_items)


def _tensors(operands: OperandSet) -> tuple[Any, Any, Any]:
    import tvm_ffi

    return (
        tvm_ffi.from_dlpack(operands.a),
        tvm_ffi.from_dlpack(operands.b.t()),
        tvm_ffi.from_dlpack(operands.c),
    )
