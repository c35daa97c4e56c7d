"""Turn every ``relax.nn.conv2d`` that is a matrix product into ``moonpoly.conv2d``.

Requires: NCHW layout, constants folded. Ensures: what is left as a convolution is in the site
table's report with the reason. Functional: returns a new module.

A one-dimensional convolution is passed as one of height 1.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from moonpoly.compiler.passes.dims import dtype_of, is_static, shape_of
from moonpoly.compiler.passes.fold_constant import constant_array
from moonpoly.compiler.passes.rewriting import NodeRewriter, rewrite_functions
from moonpoly.compiler.sites import SiteTable

INTRINSIC = "moonpoly.conv2d"
# Channels that a group needs, in and out, to be a matrix product worth the name: with fewer, a
# micro-kernel's register tile is mostly padding.
_MIN_GROUP_CHANNELS = 4
_CONV1D = tvm.ir.Op.get("relax.nn.conv1d")
_CONV2D = tvm.ir.Op.get("relax.nn.conv2d")
_OTHERS = {
    tvm.ir.Op.get(f"relax.nn.{name}"): name
    for name in ("conv3d", "conv1d_transpose", "conv2d_transpose")
}


@tvm.transform.module_pass(opt_level=0, name="RewriteConv2d")
class RewriteConv2d:
    """Module pass: see the module's description."""

    def __init__(self, table: SiteTable) -> None:
        self.table = table

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Rewrite in every Relax function."""
        rewriter = _Rewriter(mod, self.table)
        return rewrite_functions(mod, rewriter, prepare=rewriter.find_labels)


@mutator
class _Rewriter(NodeRewriter):
    def visit_call_(self, op: tvm.ir.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, tvm.ir.Call):
            return call
        if call.op in (_CONV1D, _CONV2D):
            reason = _obstacle(call)
            if not reason:
                return self._conv2d(call) if call.op == _CONV2D else self._conv1d(call)
            self.table.leave(call.op.name.removeprefix("relax.nn."), self.node, reason)
        elif call.op in _OTHERS:
            self.table.leave(_OTHERS[call.op], self.node, "the intrinsic has no such form")
        return call

    def _conv2d(self, call: tvm.ir.Call) -> relax.Expr:
        attrs = call.attrs
        return self._emit(
            call.args[0],
            call.args[1],
            shape_of(call),
            strides=_ints(attrs.strides),
            pads=_ints(attrs.padding),
            dilations=_ints(attrs.dilation),
            groups=int(attrs.groups),
        )

    def _conv1d(self, call: tvm.ir.Call) -> relax.Expr:
        attrs = call.attrs
        out_shape = shape_of(call)
        assert out_shape is not None, "checked by _obstacle()"
        left, right = _ints(attrs.padding)
        result = self._emit(
            self._insert_height(call.args[0]),
            self._insert_height(call.args[1]),
            [*out_shape[:2], tvm.tirx.const(1, "int64"), out_shape[2]],
            strides=[1, *_ints(attrs.strides)],
            pads=[0, left, 0, right],
            dilations=[1, *_ints(attrs.dilation)],
            groups=int(attrs.groups),
        )
        return relax.op.reshape(self.builder_.emit(result), relax.ShapeExpr(out_shape))

    def _insert_height(self, expr: relax.Expr) -> relax.Expr:
        value = constant_array(expr)
        if value is not None:
            return relax.const(value[:, :, None, :], "float32")
        return self.builder_.emit(relax.op.expand_dims(expr, axis=2))

    def _emit(
        self,
        data: relax.Expr,
        weight: relax.Expr,
        out_shape: list[tvm.tirx.Expr] | None,
        **attributes: object,
    ) -> relax.Expr:
        site = self.table.add("conv2d", self.node, **attributes)
        return relax.call_dps_packed(
            INTRINSIC,
            [relax.prim_value(site.id), data, weight],
            out_ty=relax.TensorType(out_shape, "float32"),
        )


def _obstacle(call: tvm.ir.Call) -> str:
    """Return why the intrinsic can't take this call, or an empty string."""
    attrs = call.attrs
    layouts = ("NCHW", "OIHW", "NCHW") if call.op == _CONV2D else ("NCW", "OIW", "NCW")
    if (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or attrs.data_layout) != layouts:
        return f"layout {attrs.data_layout}/{attrs.kernel_layout}, expected {'/'.join(layouts[:2])}"
    dtypes = [dtype_of(expr) for expr in (*call.args, call)]
    if dtypes != ["float32"] * 3:
        return f"no micro-kernels for {' × '.join(dtypes[:2])} → {dtypes[2]}, only for float32"
    weight, out = shape_of(call.args[1]), shape_of(call)
    if weight is None or out is None or shape_of(call.args[0]) is None:
        return "a shape is not known before run time"
    groups = int(attrs.groups)
    if groups == 1:
        return ""
    if not all(is_static(dim) for dim in weight[:2]):
        return "groups with a number of channels that is not known before run time"
    channels_in, channels_out = int(weight[1]), int(weight[0]) // groups
    if min(channels_in, channels_out) < _MIN_GROUP_CHANNELS:
        return (
            f"depthwise: {channels_in} channels in and {channels_out} out in each of {groups} "
            f"groups, too few for a matrix product"
        )
    return ""


def _ints(values: object) -> list[int]:
    return [int(value) for value in values]  # type: ignore[attr-defined]
