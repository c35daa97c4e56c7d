"""NumPy versions of the run-time intrinsics, driven by the same metadata: an oracle for the passes.

They are registered under names of their own, and `redirect` renames the calls in a module, so that
the real intrinsics stay as they are.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

_PREFIX = "reference."
# Site id → (attributes of the site, callable epilogue or None).
_SITES: dict[int, tuple[dict, object]] = {}


def register(site: dict, epilogue) -> None:
    """Make a call site known; ``epilogue`` is the compiled function or None."""
    _SITES[site["id"]] = (site, epilogue)


def redirect(mod: tvm.IRModule) -> tvm.IRModule:
    """Return ``mod`` calling the reference intrinsics instead of the real ones."""
    rewriter = _Redirect(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            rewriter.builder_.update_func(gvar, rewriter.visit_expr(func))
    return rewriter.builder_.get()


@mutator
class _Redirect(PyExprMutator):
    def visit_extern_func_(self, op):
        if op.global_symbol.startswith("moonpoly."):
            return relax.ExternFunc(_PREFIX + op.global_symbol)
        return op


def _array(tensor) -> np.ndarray:
    return np.from_dlpack(tensor)


@tvm.register_global_func("reference.moonpoly.matmul", override=True)
def matmul(site_id, a, b, *rest):
    site, epilogue = _SITES[int(site_id)]
    a, b, c = _array(a), _array(b), _array(rest[-1])
    a = a.transpose(site["a_axes"]) if site.get("a_axes") else a
    if site["trans_a"]:
        a = a.swapaxes(-1, -2)
    if site["b"] == "packed":
        unpacked = np.moveaxis(b, -3, -2)
        b = unpacked.reshape(*unpacked.shape[:-2], -1)[..., : site["n"]]
    else:
        b = b.transpose(site["b_axes"]) if site.get("b_axes") else b
        if site["b"] == "transposed":
            b = b.swapaxes(-1, -2)
    product = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    product = np.ascontiguousarray(product)
    _apply(site, epilogue, product, [_array(e) for e in rest[:-1]])
    c.transpose(site["c_axes"] if site.get("c_axes") else range(c.ndim))[...] = product


@tvm.register_global_func("reference.moonpoly.conv2d", override=True)
def conv2d(site_id, x, w, *rest):
    site, epilogue = _SITES[int(site_id)]
    x, w, y = _array(x).astype(np.float64), _array(w).astype(np.float64), _array(rest[-1])
    top, left, bottom, right = site["pads"]
    (sh, sw), (dh, dw), groups = site["strides"], site["dilations"], site["groups"]
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    num, cout, p, q = y.shape
    per_in, per_out = w.shape[1], cout // groups
    out = np.zeros((num, groups, per_out, p, q))
    xg = x.reshape(num, groups, per_in, *x.shape[2:])
    wg = w.reshape(groups, per_out, per_in, *w.shape[2:])
    for r in range(w.shape[2]):
        for s in range(w.shape[3]):
            window = xg[..., r * dh :: sh, s * dw :: sw][..., :p, :q]
            out += np.einsum("ngchw,gkc->ngkhw", window, wg[..., r, s])
    product = out.reshape(num, cout, p * q).astype(np.float32)
    operands = []
    rest = list(rest[:-1])
    if site.get("addend"):
        product += _array(rest.pop()).reshape(product.shape)
    for e in rest:
        e = _array(e)
        e = e.reshape((1,) * (4 - e.ndim) + e.shape)
        operands.append(e.reshape(*e.shape[:2], -1))
    _apply(site, epilogue, product, operands)
    y[...] = product.reshape(y.shape)


def _apply(site, epilogue, product, operands):
    """Run the epilogue on every matrix of ``product``, cut in uneven blocks."""
    if epilogue is None:
        return
    kinds = [operand["kind"] for operand in site["epilogue"]["operands"]]
    *batch, m, n = product.shape
    full = [
        np.broadcast_to(e, _target(kind, batch, m, n))
        for kind, e in zip(kinds, operands, strict=True)
    ]
    rows = sorted({0, m, m // 3, min(m, 7)})
    columns = sorted({0, n, min(n, 16), min(n, 48)})
    for index in np.ndindex(*batch):
        for m0, m1 in pairwise(rows):
            for n0, n1 in pairwise(columns):
                views = []
                for kind, e in zip(kinds, full, strict=True):
                    e = e[index]
                    if kind == "full":
                        views.append(e[m0:m1, n0:n1])
                    elif kind == "row":
                        views.append(np.ascontiguousarray(e[m0:m1, 0]))
                    elif kind == "col":
                        views.append(np.ascontiguousarray(e[0, n0:n1]))
                    else:
                        views.append(np.ascontiguousarray(e[0, :1]))
                block = product[index][m0:m1, n0:n1]
                epilogue(*map(tvm_ffi.from_dlpack, map(_writable, [block, *views])))


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else array.copy()


def _target(kind, batch, m, n):
    return (*batch, m if kind in ("row", "full") else 1, n if kind in ("col", "full") else 1)
