"""Dimensions that a graph needs to be equal: learned from use, and checked by name at run time."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import Compiled, graph
from tvm import relax

from moonpoly import compiler
from moonpoly.compiler.frontend import import_model
from moonpoly.error import InputError, ModelError, UnsupportedError

SIDE_BY_SIDE = "g (float[m,4] a, float[n,3] b) => (float[m,7] y) { y = Concat<axis=1>(a, b) }"
INNER = "g (float[m,k] a, float[j,n] b) => (float[m,n] y) { y = MatMul(a, b) }"


def _floats(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize("text", [SIDE_BY_SIDE, INNER], ids=["concat", "matmul"])
def test_dimensions_that_an_operator_needs_to_be_equal_become_one_symbol(text):
    imported = import_model(graph(text))
    assert len(imported.conditions.equal) == 1
    symbols = {
        dim
        for param in imported.module["main"].params
        for dim in relax.analysis.tir_vars_in_type(param.ty)
    }
    assert len(symbols) == len({dim for spec in imported.inputs for dim in spec.shape} - {4, 3}) - 1


def test_unequal_sizes_are_refused_by_name():
    executable = compiler.compile(graph(SIDE_BY_SIDE))
    assert executable(a=_floats(2, 4), b=_floats(2, 3))["y"].shape == (2, 7)
    with pytest.raises(InputError, match=r"m and n must be equal|n and m must be equal"):
        executable(a=_floats(2, 4), b=_floats(3, 3))


def test_a_condition_on_one_dimension_is_checked():
    model = graph(
        "g (float[n] x) => (float[m,4] y) { y = Reshape(x, to) }",
        to=np.array([-1, 4], np.int64),
    )
    executable = compiler.compile(model)
    assert executable(x=_floats(8))["y"].shape == (2, 4)
    with pytest.raises(InputError, match="must be equal"):
        executable(x=_floats(7))


def test_the_module_checks_what_is_learned_without_the_metadata():
    # The check at the entry is only for its message; the module doesn't rely on it.
    model = graph(
        "g (float[n] x) => (float[m,4] y) { y = Reshape(x, to) }",
        to=np.array([-1, 4], np.int64),
    )
    executable = compiler.compile(model)
    object.__setattr__(executable._info, "constraints", ())
    with pytest.raises(InputError, match="Mismatched dimensions"):
        executable(x=_floats(7))


def test_sizes_that_neither_match_nor_broadcast_are_refused():
    compiled = Compiled(graph("g (float[m] a, float[n] b) => (float[p] y) { y = Add(a, b) }"))
    (result,) = compiled(a=_floats(1), b=_floats(3))
    np.testing.assert_array_equal(result, 2 * _floats(3))
    with pytest.raises(InputError, match=r"broadcasts m and n.* got 2 and 3"):
        compiled(a=_floats(2), b=_floats(3))


def test_a_mask_of_a_length_of_its_own_broadcasts_or_is_refused():
    text = """g (float[b,s,4] q, float[b,p,4] k, float[1,1,t] mask) => (float[b,s,4] y) {
        kt = Transpose<perm=[0,2,1]>(k) w = MatMul(q, kt) m = Add(w, mask) y = MatMul(m, k) }"""
    compiled = Compiled(graph(text))
    rng = np.random.default_rng(5)
    q, k = (rng.standard_normal((2, n, 4)).astype(np.float32) for n in (3, 5))
    for t in (5, 1):
        mask = rng.standard_normal((1, 1, t)).astype(np.float32)
        (got,) = compiled(q=q, k=k, mask=mask)
        np.testing.assert_allclose(got, (q @ k.transpose(0, 2, 1) + mask) @ k, rtol=1e-4, atol=1e-4)
    for t in (4, 6):
        with pytest.raises(InputError, match=f"broadcasts p and t, got 5 and {t}"):
            compiled(q=q, k=k, mask=_floats(1, 1, t))
    with pytest.raises(InputError, match="must give p"):
        compiled(q=q, k=k[:, :1], mask=_floats(1, 1, 4))


def test_a_table_bounds_the_dimension_that_reads_it():
    imported = import_model(
        graph(
            """g (float[s,4] x) => (float[s,4] y) {
                n = Shape<end=1>(x) p = Slice(table, zero, n, zero) y = Add(x, p) }""",
            table=_floats(16, 4),
            zero=np.array([0], np.int64),
        )
    )
    assert imported.conditions.at_most == {"s": 16}
    assert imported.outputs[0].shape == ("s", 4)


def test_a_belief_that_a_dimension_is_not_empty_is_checked():
    model = graph(
        "g (float[n] x) => (float[m] y) { y = Slice(x, one, most) }",
        one=np.array([1], np.int64),
        most=np.array([2**62], np.int64),
    )
    executable = compiler.compile(model)
    assert executable(x=_floats(1))["y"].shape == (0,)
    if import_model(model).conditions.at_least:
        with pytest.raises(InputError, match="n must be at least 1"):
            executable(x=_floats(0))
    else:
        assert executable(x=_floats(0))["y"].shape == (0,)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[n,4] a, float[n,3] b) => (float[n,4] y) { y = Add(a, b) }",
        "g (float[n,4] a, float[3,n] b) => (float[n,n] y) { y = MatMul(a, b) }",
        "g (float[2,4] a, float[3,4] b) => (float[2,8] y) { y = Concat<axis=1>(a, b) }",
    ],
    ids=["add", "matmul", "concat"],
)
def test_known_sizes_that_contradict_are_refused_at_compile_time(text):
    with pytest.raises((ModelError, UnsupportedError), match=r"node 'y'"):
        import_model(graph(text))


def test_a_dimension_can_be_fixed():
    model = graph("g (float[b,s] x) => (float[b,s] y) { y = Relu(x) }")
    imported = import_model(model, {"s": 128})
    assert imported.inputs[0].shape == ("b", 128)
    assert imported.outputs[0].shape == ("b", 128)
    with pytest.raises(InputError, match="no symbolic dimension 't' in the model; it has b, s"):
        import_model(model, {"t": 1})


def test_an_expression_of_dimensions_is_held_against_its_input():
    model = graph("g (float[n,k] x) => (float[n,m] y) { y = Neg(x) }")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "2*n + 1"
    run = compiler.compile(model)
    assert run(x=np.zeros((3, 7), np.float32))["y"].shape == (3, 7)
    with pytest.raises(InputError, match=r"axis 1 of 'x' must be 2\*n\+1, which is 7 at n=3"):
        run(x=np.zeros((3, 6), np.float32))
