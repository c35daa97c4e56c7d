"""What the rewriting passes decide for one model: its call sites and a report of what they left.

The intrinsics take one number, the call site; everything else that they must know of a call is
looked up by it at run time in the model's metadata.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

# A site id is the head of the model's digest above a running number: 63 bits, so that the ids of
# different models in one process differ and an int64 stays positive.
_DIGEST_BITS = 47
_INDEX_BITS = 16

OperandKind = Literal["col", "row", "full", "scalar"]


@dataclass(frozen=True)
class Epilogue:
    """What is done with a block of the output while it is in cache.

    Parameters
    ----------
    function
        Name of the exported PrimFunc.
    operands
        How each extra operand is broadcast over a block.
    """

    function: str
    operands: tuple[OperandKind, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the form kept in a model's metadata."""
        return {"function": self.function, "operands": [{"kind": kind} for kind in self.operands]}


@dataclass
class CallSite:
    """One call of a run-time intrinsic.

    Parameters
    ----------
    id
        The number that the call passes.
    op
        ``"matmul"`` or ``"conv2d"``.
    node
        The ONNX node that the call came from.
    attributes
        What the intrinsic needs besides the tensors: layout of B, strides, pads and so on.
    epilogue
        Set by the pass that fuses what follows.
    """

    id: int
    op: Literal["matmul", "conv2d"]
    node: str
    attributes: dict[str, Any]
    epilogue: Epilogue | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the form kept in a model's metadata."""
        return {
            "id": self.id,
            "op": self.op,
            "artifact": "gemm_float32",
            "node": self.node,
            **self.attributes,
            "epilogue": None if self.epilogue is None else self.epilogue.to_dict(),
        }


@dataclass(frozen=True)
class ReportEntry:
    """What became of one operator of the model."""

    op: str
    node: str
    status: Literal["polymerized", "scheduled"]
    reason: str

    def to_dict(self) -> dict[str, str]:
        """Return the form kept in a model's metadata."""
        return {"op": self.op, "node": self.node, "status": self.status, "reason": self.reason}


@dataclass
class SiteTable:
    """The call sites of one model, filled by the passes in order.

    Parameters
    ----------
    digest
        The compiled model's digest in hexadecimal.
    lanes
        Width of a packed panel: the float32 lanes of the target's vector registers.
    """

    digest: str
    lanes: int
    sites: list[CallSite] = field(default_factory=list)
    report: list[ReportEntry] = field(default_factory=list)

    def add(self, op: Literal["matmul", "conv2d"], node: str, **attributes: Any) -> CallSite:
        """Register a call and return its site."""
        if len(self.sites) >= 1 << _INDEX_BITS:
            raise OverflowError(f"more than {1 << _INDEX_BITS} call sites in one model")
        prefix = int(self.digest[:16], 16) >> (64 - _DIGEST_BITS)
        site_id = prefix << _INDEX_BITS | len(self.sites)
        site = CallSite(id=site_id, op=op, node=node, attributes=attributes)
        self.sites.append(site)
        self.report.append(ReportEntry(op, node, "polymerized", ""))
        return site

    def leave(self, op: str, node: str, reason: str) -> None:
        """Record an operator that generated code computes, and why."""
        self.report.append(ReportEntry(op, node, "scheduled", reason))

    def find(self, site_id: int) -> CallSite:
        """Return the site of an id that :meth:`add` gave."""
        return self.sites[site_id & ((1 << _INDEX_BITS) - 1)]


def combined_digest(parts: Iterable[object]) -> str:
    """Return the SHA-256 of a list of JSON values."""
    text = json.dumps(list(parts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
