"""Relax modules of one function, for tests that compare them before and after a pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import relax

from moonpoly.compiler.sites import SiteTable

LANES = 16
_DIGEST = "00ff" * 16


def table() -> SiteTable:
    """Return an empty site table; its sites get the same ids in every one."""
    return SiteTable(_DIGEST, LANES)


def site_id(index: int) -> relax.Expr:
    """Return the id of the ``index``-th site of :func:`table`, as calls pass it."""
    ids = table()
    return relax.prim_value([ids.add("matmul", "").id for _ in range(index + 1)][index])


def dim(name: str) -> tvm.tirx.Var:
    """Return a symbolic dimension."""
    return tvm.tirx.Var(name, "int64")


def tensor(name: str, *shape: object, dtype: str = "float32") -> relax.Var:
    """Return a parameter."""
    return relax.Var(name, relax.TensorType(list(shape), dtype))


def module(
    params: Sequence[relax.Var], body: Callable[[relax.BlockBuilder], relax.Expr]
) -> tvm.IRModule:
    """Return a module whose ``main`` has one dataflow block, whose result ``body`` returns."""
    bb = relax.BlockBuilder()
    with bb.function("main", list(params)):
        with bb.dataflow():
            result = bb.emit_output(body(bb))
        bb.emit_func_output(result)
    return bb.get()


def intrinsic(name: str, index: int, args: Sequence[relax.Expr], *shape: object) -> relax.Expr:
    """Return the call of a run-time intrinsic with the ``index``-th site."""
    return relax.call_dps_packed(
        f"moonpoly.{name}",
        [site_id(index), *args],
        out_ty=relax.TensorType(list(shape), "float32"),
    )
