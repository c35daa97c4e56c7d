"""Transcendental functions as short polynomials, lane by lane.

LLVM turns ``exp``, ``erf``, ``tanh`` and ``log`` of a vector into one libm call for each lane. The
forms here are straight-line arithmetic. The coefficients are minimax fits of this project's own;
each function's doc gives the largest relative error measured over its range in float32 arithmetic
(1 ulp is 1.2e-7). Infinities, NaNs and subnormal results are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tvm import tirx
from tvm.ir import Expr
from tvm.tirx import op

from moonpoly.compiler.schedule.expression import num_lanes, scalar_dtype, vector_dtype


class Binder(Protocol):
    """Gives a name to an intermediate value, so that it is computed once."""

    def bind(self, value: Expr, hint: str = ...) -> Expr:
        """Return a variable that stands for ``value``."""
        ...


_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first is exact in 10 bits, so that n * _LN2_HIGH is exact.
_LN2_HIGH = 0.693359375
_LN2_LOW = -2.12194440054690583e-4
# Below, exp is 0 in float32; above, infinite.
_EXP_LOWEST = -104.0
_EXP_HIGHEST = 89.0
_EXP = (0.49999993050385755, 0.1666651478722462, 0.04166845684641148, 0.008369419268996973,
        0.0013813142576590246)  # fmt: skip

# erf is 1 in float32 from here on, tanh likewise.
_ERF_SATURATES = 3.92
_ERF_P = (1.1283791463032133, 0.19039697204435702, 0.0527472875773997, 0.003765162613810316,
          0.0002848648554167752, 2.050059805688723e-06)  # fmt: skip
_ERF_Q = (1.0, 0.5020676666137913, 0.1141050254152656, 0.014968309641641463,
          0.0011624112009645602, 3.8090495166814876e-05)  # fmt: skip
_TANH_SATURATES = 9.02
_TANH_P = (0.9999999987030331, 0.1367988936473647, 0.0038682953452765516, 2.8006796960207808e-05,
           3.0583415076563487e-08, -1.220227532525455e-11)  # fmt: skip
_TANH_Q = (1.0, 0.4701322143051089, 0.027245720700052746, 0.00039385736558459456,
           1.287320078325575e-06)  # fmt: skip

_SQRT_HALF_BITS = 0x3F3504F3
_LOG = (0.33333331198507515, -0.25000837994532565, 0.20001292537540272, -0.16622763634061452,
        0.1419969865587404, -0.1316420156454142, 0.12779100778711952,
        -0.07646046022862425)  # fmt: skip
_SMALLEST_NORMAL = 1.1754943508222875e-38


# Bits of an infinity without its sign, and the integer type of the same size.
_INFINITY_BITS = {
    "float16": (0x7C00, "int16"),
    "bfloat16": (0x7F80, "int16"),
    "float32": (0x7F800000, "int32"),
    "float64": (0x7FF0000000000000, "int64"),
}


def constant(value: float, like: Expr) -> Expr:
    """Return a float32 constant with the lanes of ``like``."""
    return _broadcast(tirx.FloatImm("float32", value), num_lanes(like))


def _integer(value: int, like: Expr) -> Expr:
    return _broadcast(tirx.IntImm("int32", value), num_lanes(like))


def _broadcast(value: Expr, lanes: int) -> Expr:
    return value if lanes == 1 else tirx.Broadcast(value, lanes)


def _bits(x: Expr) -> Expr:
    return op.reinterpret(vector_dtype("int32", num_lanes(x)), x)


def _float(bits: Expr) -> Expr:
    return op.reinterpret(vector_dtype("float32", num_lanes(bits)), bits)


def _horner(binder: Binder, coefficients: Sequence[float], x: Expr) -> Expr:
    result = constant(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        result = binder.bind(result * x + constant(coefficient, x), "poly")
    return result


def _clamp(x: Expr, low: float, high: float) -> Expr:
    # In this order of comparison a NaN passes unchanged.
    x = tirx.Select(x < constant(low, x), constant(low, x), x)
    return tirx.Select(x > constant(high, x), constant(high, x), x)


def _power_of_two(exponent: Expr) -> Expr:
    biased = exponent + _integer(127, exponent)
    return _float(op.shift_left(biased, _integer(23, exponent)))


def exp(binder: Binder, x: Expr) -> Expr:
    """e^x, within 1.3e-7."""
    x = binder.bind(_clamp(x, _EXP_LOWEST, _EXP_HIGHEST), "x")
    # The maximum turns a NaN into a number, which the conversion to an integer needs.
    scaled = tirx.Max(x * constant(_LOG2_E, x), constant(_EXP_LOWEST * _LOG2_E, x))
    n = binder.bind(op.call_intrin(x.ty.dtype, "tirx.nearbyint", scaled), "n")
    r = binder.bind(x + n * constant(-_LN2_HIGH, x), "r")
    r = binder.bind(r + n * constant(-_LN2_LOW, x), "r")
    g = _horner(binder, _EXP, r)
    tail = binder.bind(r * r * g + r, "tail")
    value = tail + constant(1.0, x)
    # Two factors reach every exponent from -150 to 128, subnormal results and infinity included.
    exponent = binder.bind(tirx.Cast(vector_dtype("int32", num_lanes(x)), n), "exponent")
    half = binder.bind(op.shift_right(exponent, _integer(1, x)), "half")
    return binder.bind(value * _power_of_two(half) * _power_of_two(exponent - half), "exp")


def _odd_rational(
    binder: Binder, x: Expr, saturates: float, p: Sequence[float], q: Sequence[float]
) -> Expr:
    """x P(x^2) / Q(x^2), with ``x`` clamped to where the function has reached its limit."""
    x = binder.bind(_clamp(x, -saturates, saturates), "x")
    z = binder.bind(x * x, "z")
    numerator = binder.bind(x * _horner(binder, p, z), "p")
    return binder.bind(numerator / _horner(binder, q, z), "quotient")


def erf(binder: Binder, x: Expr) -> Expr:
    """The error function, within 4e-7."""
    return _odd_rational(binder, x, _ERF_SATURATES, _ERF_P, _ERF_Q)


def tanh(binder: Binder, x: Expr) -> Expr:
    """The hyperbolic tangent, within 4e-7."""
    return _odd_rational(binder, x, _TANH_SATURATES, _TANH_P, _TANH_Q)


def sigmoid(binder: Binder, x: Expr) -> Expr:
    """1 / (1 + e^-x), within 3e-7 where the result is a normal number."""
    one = constant(1.0, x)
    return binder.bind(one / (one + exp(binder, binder.bind(constant(0.0, x) - x, "x"))), "sigmoid")


def log(binder: Binder, x: Expr) -> Expr:
    """The natural logarithm, within 2e-7; -inf at 0, NaN below."""
    subnormal = x < constant(_SMALLEST_NORMAL, x)
    scaled = binder.bind(tirx.Select(subnormal, x * constant(2.0**25, x), x), "x")
    bits = binder.bind(_bits(scaled), "bits")
    # The mantissa is taken between sqrt(1/2) and sqrt(2), so that log is exact around 1.
    offset = binder.bind(bits - _integer(_SQRT_HALF_BITS, x), "offset")
    exponent = binder.bind(op.shift_right(offset, _integer(23, x)), "exponent")
    mantissa = _float(bits - op.shift_left(exponent, _integer(23, x)))
    f = binder.bind(mantissa - constant(1.0, x), "f")
    n = tirx.Cast(vector_dtype("float32", num_lanes(x)), exponent)
    n = binder.bind(n - tirx.Select(subnormal, constant(25.0, x), constant(0.0, x)), "n")
    z = binder.bind(f * f, "z")
    tail = binder.bind(z * f * _horner(binder, _LOG, f) + n * constant(_LN2_LOW, x), "tail")
    tail = binder.bind(tail - z * constant(0.5, x), "tail")
    result = binder.bind(n * constant(_LN2_HIGH, x) + (f + tail), "log")
    infinite = constant(float("inf"), x)
    result = tirx.Select(x < infinite, result, x)
    result = tirx.Select(x > constant(0.0, x), result, constant(float("nan"), x))
    is_zero = tirx.EQ(x, constant(0.0, x))
    return binder.bind(tirx.Select(is_zero, constant(float("-inf"), x), result), "log")


def rsqrt(binder: Binder, x: Expr) -> Expr:
    """1 / sqrt(x), correctly rounded twice."""
    return binder.bind(constant(1.0, x) / _sqrt(x), "rsqrt")


def _sqrt(x: Expr) -> Expr:
    return op.call_intrin(vector_dtype("float32", num_lanes(x)), "tirx.sqrt", x)


def power(binder: Binder, x: Expr, exponent: float) -> Expr | None:
    """x^exponent for the exponents that multiplication and roots give; else ``None``."""
    if exponent in (1.0, 2.0, 3.0, 4.0):
        square = binder.bind(x * x, "square")
        return {1.0: x, 2.0: square, 3.0: square * x, 4.0: square * square}[exponent]
    if exponent == 0.5:
        # pow(-inf, 0.5) is +inf and pow(-0.0, 0.5) is +0.0, unlike the square root.
        root = tirx.Select(
            tirx.EQ(x, constant(float("-inf"), x)), constant(float("inf"), x), _sqrt(x)
        )
        return root + constant(0.0, x)
    if exponent == -1.0:
        return constant(1.0, x) / x
    return None


def is_nan(value: Expr) -> Expr:
    """Return whether ``value`` is a NaN; by its bits, since TVM takes x != x for false."""
    infinity, dtype = _INFINITY_BITS[scalar_dtype(value)]
    lanes = num_lanes(value)

    def constant(number: int) -> Expr:
        scalar = tirx.IntImm(dtype, number)
        return scalar if lanes == 1 else tirx.Broadcast(scalar, lanes)

    magnitude = (1 << (int(dtype[3:]) - 1)) - 1
    bits = op.reinterpret(vector_dtype(dtype, lanes), value)
    return tirx.GT(op.bitwise_and(bits, constant(magnitude)), constant(infinity))


FUNCTIONS: dict[str, Callable[[Binder, Expr], Expr]] = {
    "exp": exp,
    "erf": erf,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "log": log,
    "rsqrt": rsqrt,
}

# What x86 computes in vector registers without a library.
NATIVE = frozenset(
    {
        "sqrt", "fabs", "floor", "ceil", "trunc", "nearbyint", "round", "fma", "reinterpret",
        "shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not",
        "likely", "copysign",
    }
)  # fmt: skip
