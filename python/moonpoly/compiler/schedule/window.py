"""Recognise a reduction over windows of an image."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm.ir import Expr, Var

from moonpoly.compiler.schedule.expression import (
    constant_int,
    int64,
    loads,
    substitute,
    uses,
)
from moonpoly.compiler.schedule.stages import Axis, Program, Stage
from moonpoly.error import UnsupportedError

# Larger windows would unroll into too much code.
MAX_WINDOW = 128


@dataclass(frozen=True)
class Sweep:
    """How an image coordinate follows from an output coordinate and a window coordinate.

    The coordinate is ``stride * out + dilation * window + offset``.
    """

    stride: int
    dilation: int
    offset: int


@dataclass(frozen=True)
class WindowProgram:
    """A reduction over windows of an image, and what is computed of its result.

    Parameters
    ----------
    image
        The buffer that windows are taken from: a parameter, or a padded one.
    image_leading
        Its indices but the last two, in terms of the reduction's axes.
    channels
        The reduced axes other than the window: at most one.
    window
        The window's axes, vertical and horizontal, with static extents.
    """

    program: Program
    reduction: Stage
    output: Stage
    image: Var
    image_leading: tuple[Expr, ...]
    channels: tuple[Axis, ...]
    window: tuple[Axis, Axis]
    vertical: Sweep
    horizontal: Sweep


def match_window(program: Program) -> WindowProgram:
    """Return how ``program`` slides windows over an image.

    Raises
    ------
    UnsupportedError
        If it doesn't.
    """
    reductions = [stage for stage in program.stages if stage.is_reduction]
    outputs = program.outputs
    if len(reductions) != 1 or len(outputs) != 1:
        raise UnsupportedError("expected one reduction and one output")
    reduction, output = reductions[0], outputs[0]
    if len(reduction.axes) < 3 or len(reduction.reduce_axes) < 2:
        raise UnsupportedError("expected images and a window")
    if constant_int(reduction.axes[-1].extent) == 1:
        raise UnsupportedError("expected output rows longer than one")
    *channels, window_y, window_x = reduction.reduce_axes
    channels = [axis for axis in channels if constant_int(axis.extent) != 1]
    if len(channels) > 1:
        raise UnsupportedError("expected one axis of channels")
    size = 1
    for axis in (window_y, window_x):
        extent = constant_int(axis.extent)
        if extent is None:
            raise UnsupportedError("expected a window of static size")
        size *= extent
    if not 1 < size <= MAX_WINDOW:
        raise UnsupportedError(f"expected a window of 2 to {MAX_WINDOW}, got {size}")
    row, column = reduction.axes[-2].var, reduction.axes[-1].var
    found = None
    for load in loads(reduction.value):
        if any(uses(index, column) for index in load.indices):
            if found is not None:
                raise UnsupportedError("expected one image")
            found = load
    if found is None:
        raise UnsupportedError("expected an image")
    units = {
        axis.var: int64(0) for axis in reduction.reduce_axes[:-2] if constant_int(axis.extent) == 1
    }
    analyzer = tvm.sym.Analyzer()
    leading = tuple(analyzer.simplify(substitute(i, units)) for i in found.indices[:-2])
    moving = (row, column, window_y.var, window_x.var)
    if any(uses(index, var) for index in leading for var in moving):
        raise UnsupportedError("expected the window to move within a plane")
    return WindowProgram(
        program,
        reduction,
        output,
        found.source,
        leading,
        tuple(channels),
        (window_y, window_x),
        _sweep(found.indices[-2], row, window_y.var),
        _sweep(found.indices[-1], column, window_x.var),
    )


def _sweep(index: Expr, out: Var, window: Var) -> Sweep:
    parts = tvm.sym.detect_linear_equation(tvm.sym.Analyzer().simplify(index), [out, window])
    numbers = [constant_int(part) for part in parts]
    if len(numbers) != 3 or None in numbers:
        raise UnsupportedError("expected windows at regular steps")
    stride, dilation, offset = (int(number) for number in numbers if number is not None)
    if stride not in (1, 2) or dilation < 1:
        raise UnsupportedError(f"expected a stride of 1 or 2, got {stride}")
    return Sweep(stride, dilation, offset)
