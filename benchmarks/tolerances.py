"""Bounds of the benchmarks' own checks; the test suite holds them equal to its one table."""

from __future__ import annotations

# max |got - exact| / (|A| @ |B|) of a float32 product against float64.
OPERATOR_REL = 2e-6

# The same for 16-bit operands on a GPU, of what is left after rounding to the type.
OPERATOR_REL_16BIT = 1e-5

# The same for 8-bit floats, whose products the tensor cores add up with 14 bits.
OPERATOR_REL_8BIT_FLOAT = 2e-3

# Largest error of a model's output, relative to the largest magnitude of the reference's output.
MODEL_REL = 1e-4
