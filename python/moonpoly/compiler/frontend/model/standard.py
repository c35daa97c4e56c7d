"""What the ONNX standard says of domains, operators and their operands."""

from __future__ import annotations

import onnx

# Both name the standard's own domain.
STANDARD_DOMAINS = ("", "ai.onnx")


def plain_domain(domain: str) -> str:
    """Return a domain's name, which is "" for the standard's however it is written."""
    return "" if domain in STANDARD_DOMAINS else domain


def opsets_of(proto: onnx.ModelProto) -> dict[str, int]:
    """Return domain → version of a model; the standard domain is ""."""
    return {plain_domain(entry.domain): entry.version for entry in proto.opset_import}


def schema_of(op: str, version: int, domain: str) -> onnx.defs.OpSchema | None:
    """Return what the standard says of an operator, or None if it doesn't know it."""
    try:
        return onnx.defs.get_schema(op, version, plain_domain(domain))
    except onnx.defs.SchemaError:
        return None


def formal_operand(
    schema: onnx.defs.OpSchema, index: int
) -> onnx.defs.OpSchema.FormalParameter | None:
    """Return what a schema says of operand ``index``; the last may stand for any number."""
    return schema.inputs[min(index, len(schema.inputs) - 1)] if schema.inputs else None
