"""The generated epilogue on blocks of every width: values, and nothing touched outside."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from graphs import LANES, TARGET
from scipy.special import erf
from tolerances import ELEMENTWISE_REL
from tvm import relax

from moonpoly.compiler.codegen import PIPELINE
from moonpoly.compiler.passes.epilogue_function import Ref, Step, build_epilogue

ACC = Ref("step", -1)
_X = relax.Var("x", relax.TensorType((4, 4), "float32"))
SHAPES = [(1, 1), (3, 2), (2, LANES - 1), (5, LANES), (4, LANES + 1), (3, 3 * LANES - 1), (2, 97)]


def _compile(steps, kinds):
    func = build_epilogue(steps, kinds, LANES).with_attr("global_symbol", "epilogue")
    target = TARGET.tvm_target()
    library = tvm.tirx.build(tvm.IRModule({"epilogue": func}), target=target, pipeline=PIPELINE)
    return library["epilogue"]


def _check(steps, kinds, exact, rng):
    function = _compile(steps, kinds)
    for m, n in SHAPES:
        block = rng.standard_normal((m, n + 3)).astype(np.float32)
        before = block.copy()
        operands = []
        for kind in kinds:
            shape = {"col": (n,), "row": (m,), "full": (m, n + 2), "scalar": (1,)}[kind]
            operand = rng.uniform(0.5, 2, shape).astype(np.float32)
            operands.append(operand[:, :n] if kind == "full" else operand)
        function(block[:, :n], *operands)
        wide = [e[:, None] if k == "row" else e for k, e in zip(kinds, operands, strict=True)]
        want = exact(before[:, :n].astype(np.float64), *(e.astype(np.float64) for e in wide))
        scale = max(1.0, np.abs(want).max())
        assert np.abs(block[:, :n] - want).max() / scale <= ELEMENTWISE_REL["float32"], (m, n)
        np.testing.assert_array_equal(block[:, n:], before[:, n:])


UNARY = {
    "relu": (relax.op.nn.relu, lambda x: np.maximum(x, 0)),
    "sigmoid": (relax.op.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (relax.op.tanh, np.tanh),
    "exp": (relax.op.exp, np.exp),
    "erf": (relax.op.erf, erf),
    "silu": (relax.op.nn.silu, lambda x: x / (1 + np.exp(-x))),
    "gelu": (relax.op.nn.gelu, lambda x: x / 2 * (1 + erf(x / np.sqrt(2)))),
    "gelu_tanh": (
        relax.op.nn.gelu_tanh,
        lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    "negative": (relax.op.negative, np.negative),
    "abs": (relax.op.abs, np.abs),
    "clip": (lambda x: relax.op.clip(x, -0.5, 0.25), lambda x: np.clip(x, -0.5, 0.25)),
    "cube": (lambda x: relax.op.power(x, relax.const(3.0, "float32")), lambda x: x**3),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name, rng):
    make, exact = UNARY[name]
    call = make(_X)
    args = (ACC, 3.0) if name == "cube" else (ACC,)
    _check([Step(call, args)], (), exact, rng)


@pytest.mark.parametrize("kind", ["col", "row", "full", "scalar"])
@pytest.mark.parametrize(
    ("make", "exact"),
    [
        (relax.op.add, np.add),
        (relax.op.subtract, np.subtract),
        (relax.op.multiply, np.multiply),
        (relax.op.divide, np.divide),
        (relax.op.maximum, np.maximum),
        (relax.op.minimum, np.minimum),
    ],
    ids=lambda f: getattr(f, "__name__", None),
)
def test_binary_with_each_kind_of_operand(make, exact, kind, rng):
    _check([Step(make(_X, _X), (ACC, Ref("operand", 0)))], (kind,), exact, rng)


def test_a_value_used_twice_is_computed_from_the_old_elements(rng):
    # In place, a tail that overlaps the last whole vector must not be transformed twice.
    steps = [
        Step(relax.op.add(_X, _X), (ACC, Ref("operand", 0))),
        Step(relax.op.exp(_X), (Ref("step", 0),)),
        Step(relax.op.multiply(_X, _X), (Ref("step", 0), Ref("step", 1))),
        Step(relax.op.subtract(_X, _X), (Ref("operand", 1), Ref("step", 2))),
    ]
    _check(steps, ("col", "full"), lambda x, b, r: r - (x + b) * np.exp(x + b), rng)


def test_nan_passes_through():
    function = _compile([Step(relax.op.nn.relu(_X), (ACC,))], ())
    block = np.full((1, LANES + 1), np.nan, dtype=np.float32)
    function(block)
    assert np.isnan(block).all()
