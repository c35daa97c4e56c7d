"""Compile Relax functions through the schedules, and compare them with float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tolerances
import tvm
from tvm import relax, tirx

import moonpoly.compiler.codegen as codegen
from moonpoly.compiler.schedule import ScheduleCPU
from moonpoly.target import Target, host_features, host_target

TARGETS = [name for name in ("x86-avx512", "x86-avx2")]


@pytest.fixture(params=TARGETS)
def target(request) -> Target:
    """Each target that this machine can run."""
    chosen = Target.parse(request.param)
    if missing := chosen.missing_features():
        pytest.skip(f"this machine lacks {', '.join(missing)}; it has {sorted(host_features())}")
    return chosen


@pytest.fixture
def host() -> Target:
    """The best target of this machine."""
    return host_target()


def symbols(names: str) -> list[tirx.Var]:
    """Return symbolic dimensions, one a letter."""
    return [tirx.Var(name, "int64") for name in names]


class Scheduled:
    """A compiled Relax function and what the schedules made of it."""

    def __init__(self, vm: relax.VirtualMachine, rules: dict[str, str]) -> None:
        self.vm = vm
        self.rules = rules

    def __call__(self, *inputs: np.ndarray) -> np.ndarray:
        """Run on NumPy arrays."""
        return self.vm["main"](*(tvm.runtime.tensor(value) for value in inputs)).numpy()


def compile_graph(
    target: Target,
    inputs: Sequence[tuple[Sequence[object], str]],
    graph: Callable[..., relax.Expr],
) -> Scheduled:
    """Compile a graph of Relax operators on inputs given as (shape, dtype)."""
    builder = relax.BlockBuilder()
    parameters = [
        relax.Var(f"x{number}", relax.TensorType(list(shape), dtype))
        for number, (shape, dtype) in enumerate(inputs)
    ]
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(graph(*parameters)))
        builder.emit_func_output(result)
    return compile_module(target, builder.get())


def compile_module(target: Target, mod: tvm.IRModule) -> Scheduled:
    """Compile a module of Relax operators the way models are."""
    transform = relax.transform
    schedule = ScheduleCPU(target.tvm_target())
    mod = tvm.ir.transform.Sequential(
        [
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.FoldConstant(),
            transform.FuseOps(),
            transform.FuseTIR(),
            transform.DeadCodeElimination(),
            schedule,
        ]
    )(mod)
    executable = tvm.compile(mod, target=target.tvm_target(), tir_pipeline=codegen.PIPELINE)
    return Scheduled(relax.VirtualMachine(executable, tvm.cpu()), schedule.report.rules)


def assert_close(got: np.ndarray, want: np.ndarray, scale: float = 1.0) -> None:
    """Compare with a float64 result, relative to its largest magnitude."""
    assert got.shape == want.shape
    if want.size == 0:
        return
    bound = tolerances.ELEMENTWISE_REL["float32"] * scale
    size = max(float(np.max(np.abs(want))), np.finfo(np.float32).tiny)
    assert float(np.max(np.abs(got - want))) / size <= bound
