"""Turn every ``relax.matmul`` into a call of the run-time intrinsic ``moonpoly.matmul``.

Requires: constants folded, bindings in A-normal form. Ensures: what is left as ``relax.matmul`` is
in the site table's report with the reason. Functional: returns a new module.

- A vector operand becomes a matrix of one row or column.
- A transposition of A or B is absorbed as long as the innermost dimension stays one of the
  matrix: the intrinsic reads the tensor through a view with the dimensions in another order.
- A constant B is packed into panels here; one of few columns is laid out column by column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from moonpoly.compiler.passes.dims import dtype_of, shape_of
from moonpoly.compiler.passes.fold_constant import constant_array
from moonpoly.compiler.passes.join_permutes import permutation
from moonpoly.compiler.passes.pack_weight import is_narrow, pack_weight
from moonpoly.compiler.passes.rewriting import NodeRewriter, rewrite_functions
from moonpoly.compiler.sites import SiteTable

INTRINSIC = "moonpoly.matmul"
_MATMUL = tvm.ir.Op.get("relax.matmul")


@tvm.transform.module_pass(opt_level=0, name="RewriteMatmul")
class RewriteMatmul:
    """Module pass: see the module's description."""

    def __init__(self, table: SiteTable) -> None:
        self.table = table

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Rewrite in every Relax function."""
        rewriter = _Rewriter(mod, self.table)
        mod = rewrite_functions(mod, rewriter, prepare=rewriter.find_labels)
        return relax.transform.DeadCodeElimination()(mod)


@dataclass(frozen=True)
class _Operand:
    """A matrix operand: the tensor to pass, and how the matrices lie in it.

    ``axes[i]`` is the dimension of the tensor that is dimension i of the matrices, which are
    transposed after that if ``transposed``; None stands for the identity.
    """

    tensor: relax.Expr
    axes: list[int] | None = None
    transposed: bool = False


@mutator
class _Rewriter(NodeRewriter):
    def visit_call_(self, op: tvm.ir.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, tvm.ir.Call) or call.op != _MATMUL:
            return call
        reason = self._obstacle(call)
        if reason:
            self.table.leave("matmul", self.node, reason)
            return call
        return self._rewrite(call)

    def _obstacle(self, call: tvm.ir.Call) -> str:
        """Return why the intrinsic can't take this call, or an empty string."""
        dtypes = [dtype_of(expr) for expr in (*call.args, call)]
        if dtypes != ["float32"] * 3:
            return f"no micro-kernels for {' × '.join(dtypes[:2])} → {dtypes[2]}, only for float32"
        for name, expr in (("A", call.args[0]), ("B", call.args[1]), ("the output", call)):
            if shape_of(expr) is None:
                return f"the shape of {name} is not known before run time"
        return ""

    def _rewrite(self, call: tvm.ir.Call) -> relax.Expr:
        a_shape, b_shape, out_shape = (shape_of(expr) for expr in (*call.args, call))
        assert a_shape and b_shape and out_shape is not None, "checked by _obstacle()"
        a = self._matrix_a(call.args[0])
        b, b_attributes = self._matrix_b(call.args[1])
        attributes = {"trans_a": a.transposed, **b_attributes}
        if a.axes is not None:
            attributes["a_axes"] = a.axes
        site = self.table.add("matmul", self.node, **attributes)
        matrix_shape = list(out_shape)
        if len(b_shape) == 1:
            matrix_shape.append(_one())
        if len(a_shape) == 1:
            matrix_shape.insert(len(matrix_shape) - 1, _one())
        result = relax.call_dps_packed(
            INTRINSIC,
            [relax.prim_value(site.id), a.tensor, b],
            out_ty=relax.TensorType(matrix_shape, "float32"),
        )
        if len(matrix_shape) == len(out_shape):
            return result
        return relax.op.reshape(self.builder_.emit(result), relax.ShapeExpr(out_shape))

    def _matrix_a(self, expr: relax.Expr) -> _Operand:
        shape = shape_of(expr)
        assert shape is not None, "checked by _obstacle()"
        if len(shape) == 1:
            return _Operand(self._reshape(expr, [_one(), shape[0]]))
        return self._absorb_transposition(expr)

    def _matrix_b(self, expr: relax.Expr) -> tuple[relax.Expr, dict[str, object]]:
        """Return the tensor to pass as B, and the site's attributes that describe it."""
        shape = shape_of(expr)
        assert shape is not None, "checked by _obstacle()"
        weight = constant_array(expr)
        if weight is not None:
            matrix = weight[:, None] if weight.ndim == 1 else weight
            if is_narrow(matrix.shape[-1], self.table.lanes):
                columns = np.ascontiguousarray(np.swapaxes(matrix, -1, -2))
                return relax.const(columns, "float32"), {"b": "transposed", "n": None}
            packed = relax.const(pack_weight(matrix, self.table.lanes), "float32")
            return packed, {"b": "packed", "n": int(matrix.shape[-1])}
        if len(shape) == 1:
            # One column, contiguous along k: that is a transposed B of one row.
            return self._reshape(expr, [_one(), shape[0]]), {"b": "transposed", "n": None}
        operand = self._absorb_transposition(expr)
        attributes: dict[str, object] = {
            "b": "transposed" if operand.transposed else "row",
            "n": None,
        }
        if operand.axes is not None:
            attributes["b_axes"] = operand.axes
        return operand.tensor, attributes

    def _absorb_transposition(self, expr: relax.Expr) -> _Operand:
        source = self.lookup_binding(expr) if isinstance(expr, relax.Var) else None
        axes = permutation(source) if source is not None else None
        if source is None or axes is None:
            return _Operand(expr)
        innermost = len(axes) - 1
        if innermost not in axes[-2:]:
            # Neither m nor k would be contiguous: a copy is cheaper than such strides.
            return _Operand(expr)
        transposed = axes[-2] == innermost
        if transposed:
            axes[-2:] = axes[:-3:-1]
        identity = axes == sorted(axes)
        return _Operand(source.args[0], None if identity else axes, transposed)

    def _reshape(self, expr: relax.Expr, shape: list[tvm.tirx.Expr]) -> relax.Expr:
        return self.builder_.emit(relax.op.reshape(expr, relax.ShapeExpr(shape)))


def _one() -> tvm.tirx.Expr:
    return tvm.tirx.const(1, "int64")
