"""From a binding back to the ONNX node that it came from."""

from __future__ import annotations

import re

import tvm
from tvm import relax

from moonpoly.compiler.frontend.model.labels import RESULT_SUFFIX

# Names that Relax gives to what a node's importer emitted on the way to its result.
_ANONYMOUS = re.compile(r"(lv|gv)\d*")


def node_labels(func: relax.Function) -> dict[relax.Var, str]:
    """Return the ONNX node's name for every binding of ``func``.

    The importer names a node's result after it. A part that leads to it bears the name of the
    node that uses it first.
    """
    labels: dict[relax.Var, str] = {}
    bindings = [b for block in func.body.blocks for b in block.bindings]
    for binding in reversed(bindings):
        var = binding.var
        if not _ANONYMOUS.fullmatch(var.name):
            labels[var] = var.name.removesuffix(RESULT_SUFFIX)
        label = labels.setdefault(var, var.name)
        for used in tvm.relax.analysis.free_vars(binding.value):
            # Walking backwards, the last writer is the first user.
            labels[used] = label if _ANONYMOUS.fullmatch(used.name) else used.name
    return labels
