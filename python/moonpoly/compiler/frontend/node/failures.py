"""What converters raise, in words about the model."""

from __future__ import annotations

import re

from moonpoly.error import MoonPolyError

# What Relax, converters and ONNX's evaluator raise at a form of an operator that they don't know.
UNKNOWN_FORM_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
# Those of them that are about Python code, not about the operator.
_SLIPS = (AssertionError, AttributeError, LookupError, TypeError)
# What Relax puts before its own words: the operator in full, or the condition in C++.
_PREFIX = re.compile(
    r"^(In ir\.Op\(.*support_level=\d+\), |Check failed: \(.*\) is (true|false): )"
)


def reason_of(err: Exception) -> str:
    """Say what a converter raised; its kind as well, where that says nothing of the model."""
    assert not isinstance(err, MoonPolyError)
    lines = [line.strip() for line in str(err).splitlines() if line.strip()]
    text = _PREFIX.sub("", lines[0]) if lines else "no message"
    if isinstance(err, _SLIPS):
        return f"this form of the operator can't be imported ({type(err).__name__}: {text})"
    return text
