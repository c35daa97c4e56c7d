"""Sliding windows over narrow images, with neighbouring channels in the lanes.

A row of a 7 x 7 image fills less than half of a vector. So the planes of as many channels as there
are lanes are turned, in registers, to one vector for each pixel; every lane works then, and the
results are turned back.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.ir import Call, Expr, TensorLoad, Var
from tvm.tirx import ForKind, op

from moonpoly.compiler.schedule.emitter import Emitter
from moonpoly.compiler.schedule.expression import constant_int, int64, loads, substitute
from moonpoly.compiler.schedule.partition import OPERATION_PS, share
from moonpoly.compiler.schedule.rule_reduce import combine, reduce_term
from moonpoly.compiler.schedule.rule_transpose import transpose
from moonpoly.compiler.schedule.stages import Axis
from moonpoly.compiler.schedule.vector_builder import at
from moonpoly.compiler.schedule.window import WindowProgram
from moonpoly.error import UnsupportedError


@dataclass(frozen=True)
class ChannelProgram:
    """A window program whose channels are independent of each other.

    Parameters
    ----------
    source
        The image without its padding: a parameter.
    top, left
        Rows and columns of padding before it.
    fill
        What the padding holds.
    weight
        The load of the window's weights; ``None`` for pooling.
    """

    window: WindowProgram
    source: Var
    top: int
    left: int
    fill: float
    weight: TensorLoad | None


def match_channels(window: WindowProgram) -> ChannelProgram:
    """Return how a window program works channel by channel.

    Raises
    ------
    UnsupportedError
        If channels are summed up, or the padding isn't a constant.
    """
    reduction = window.reduction
    leading = [axis.var for axis in reduction.axes[:-2]]
    if len(leading) != 2 or window.channels or str(window.image.ty.dtype) != "float32":
        raise UnsupportedError("expected one float32 plane a channel")
    if str(window.output.buffer.ty.dtype) != "float32":
        raise UnsupportedError("expected a result of float32")
    if not all(i.same_as(var) for i, var in zip(window.image_leading, leading, strict=True)):
        raise UnsupportedError("expected every channel to have a plane of its own")
    others = [load for load in loads(reduction.value) if not load.source.same_as(window.image)]
    if len(others) > 1:
        raise UnsupportedError("expected weights and nothing else beside the image")
    source, top, left, fill = _unpad(window)
    weight = others[0] if others else None
    if weight is not None:
        _check_weight(window, weight)
    return ChannelProgram(window, source, top, left, fill, weight)


def _unpad(window: WindowProgram) -> tuple[Var, int, int, float]:
    producer = window.program.producers.get(window.image)
    if producer is None:
        return window.image, 0, 0, 0.0
    value, fill = producer.value, 0.0
    if isinstance(value, Call) and value.op.name.endswith("if_then_else"):
        if not isinstance(value.args[2], tirx.FloatImm):
            raise UnsupportedError("expected padding with a constant")
        value, fill = value.args[1], float(value.args[2].value)
    if not isinstance(value, TensorLoad) or value.source in window.program.intermediates:
        raise UnsupportedError("expected a parameter behind the padding")
    before = []
    for number, (index, axis) in enumerate(zip(value.indices, producer.axes, strict=True)):
        parts = tvm.sym.detect_linear_equation(index, [axis.var])
        shift = constant_int(parts[1]) if parts and constant_int(parts[0]) == 1 else None
        if shift is None or (number < 2 and shift != 0):
            raise UnsupportedError("expected the padding to shift the image")
        before.append(-shift)
    return value.source, before[2], before[3], fill


def _check_weight(window: WindowProgram, weight: TensorLoad) -> None:
    """Check that the taps of one channel are consecutive."""
    taps = [axis.var for axis in window.window]
    emitter = Emitter(window.program, 1)
    offset = emitter.offset(weight.source, list(weight.indices))
    parts = tvm.sym.detect_linear_equation(offset, taps)
    width = constant_int(window.window[1].extent)
    if not parts or [constant_int(part) for part in parts[:2]] != [width, 1]:
        raise UnsupportedError("expected the weights of a channel one after the other")


def emit_channels(emitter: Emitter, matched: ChannelProgram) -> None:
    """Emit a window program with channels in the lanes."""
    _Channels(emitter, matched).emit()


class _Channels:
    """The loops over images and blocks of channels."""

    def __init__(self, emitter: Emitter, matched: ChannelProgram) -> None:
        self.emitter = emitter
        self.matched = matched
        self.window = matched.window
        self.lanes = emitter.lanes
        reduction = self.window.reduction
        self.batch, self.channels, self.height, self.width = (a.extent for a in reduction.axes)
        self.taps = int(self.window.window[0].extent) * int(self.window.window[1].extent)
        self.source_height, self.source_width = matched.source.ty.shape[2:]
        padded = list(self.window.image.ty.shape[2:])
        self.padded_height, self.padded_width = padded

    def emit(self) -> None:
        """Emit the loops."""
        emitter, lanes = self.emitter, int64(self.lanes)
        blocks = op.truncdiv(self.channels + lanes - int64(1), lanes)
        area = self.height * self.width
        item_ps = area * int64((self.taps * 2 + 20) * OPERATION_PS)
        share(
            emitter,
            [self.batch, emitter.analyzer.simplify(blocks)],
            item_ps,
            self._block,
            self._allocate,
        )

    def _allocate(self) -> None:
        emitter, lanes = self.emitter, int64(self.lanes)
        # Turning works on whole tiles: a tile more than the pixels is written and read.
        pixels = self.source_height * self.source_width + lanes
        results = self.height * self.width + lanes
        plane = self.padded_height * self.padded_width
        self.pixels = emitter.allocate([pixels * lanes], "float32", "pixels")
        self.padded = emitter.allocate([plane * lanes], "float32", "padded")
        self.results = emitter.allocate([results * lanes], "float32", "results")
        taps = (self.taps + self.lanes - 1) // self.lanes * self.lanes
        self.weights = emitter.allocate([int64(taps * self.lanes)], "float32", "weights")

    def _block(self, indices: list[Expr]) -> None:
        """Emit all pixels of a block of channels of one image."""
        emitter = self.emitter
        self.image, block = indices
        self.first = emitter.opaque(block * int64(self.lanes), "channel")
        count = op.min(self.channels - self.first, int64(self.lanes))
        self.count = emitter.opaque(count, "num_channels")
        self._load_planes()
        self._pad()
        self._load_weights()
        with (
            emitter.loop(int64(0), self.height, "y") as y,
            emitter.loop(int64(0), self.width, "x") as x,
        ):
            self._pixel(y, x)
        self._store_planes()

    def _vector(self, position: Expr) -> Expr:
        return tirx.Ramp(position * int64(self.lanes), int64(1), self.lanes)

    def _channel(self, lane: int) -> Expr:
        """Return the channel in a lane; past the last one, the last again."""
        return self.first + (op.min(int64(lane), self.count - int64(1)) if lane else int64(0))

    def _turn_in(self, buffer: Var, bases: list[Expr], count: Expr, target: Var) -> None:
        """Copy ``count`` elements from each of ``bases``, a lane for each base, to ``target``."""
        emitter, lanes = self.emitter, int64(self.lanes)
        bases = [emitter.opaque(base, "base") for base in bases]
        tiles = op.truncdiv(count + lanes - int64(1), lanes)
        with emitter.loop(int64(0), emitter.analyzer.simplify(tiles), "tile") as tile:
            start = emitter.opaque(tile * lanes, "start")
            with emitter.tail(op.min(count - start, lanes)):
                rows = [emitter.load(buffer, base + start + emitter.lane) for base in bases]
            for number, column in enumerate(transpose(emitter, rows)):
                place = at(target, self._vector(start + int64(number)))
                emitter.add(tirx.BufferStore(target, column, place))

    def _load_planes(self) -> None:
        plane = self.source_height * self.source_width
        bases = [
            (self.image * self.channels + self._channel(lane)) * plane for lane in range(self.lanes)
        ]
        self._turn_in(self.matched.source, bases, plane, self.pixels)

    def _pad(self) -> None:
        """Copy the turned image into its padding."""
        emitter, matched = self.emitter, self.matched
        fill = tirx.Broadcast(tirx.FloatImm("float32", matched.fill), self.lanes)
        plane = self.padded_height * self.padded_width
        with emitter.loop(int64(0), plane, "position") as position:
            place = at(self.padded, self._vector(position))
            emitter.add(tirx.BufferStore(self.padded, fill, place))
        with (
            emitter.loop(int64(0), self.source_height, "y") as y,
            emitter.loop(int64(0), self.source_width, "x") as x,
        ):
            pixel = at(self.pixels, self._vector(y * self.source_width + x))
            target = (y + int64(matched.top)) * self.padded_width + x + int64(matched.left)
            place = at(self.padded, self._vector(target))
            emitter.add(tirx.BufferStore(self.padded, tirx.BufferLoad(self.pixels, pixel), place))

    def _load_weights(self) -> None:
        weight = self.matched.weight
        if weight is None:
            return
        channel = self.window.reduction.axes[1].var
        bases = []
        for lane in range(self.lanes):
            place: dict[Var, Expr] = {axis.var: int64(0) for axis in self._reduce_axes()}
            place[channel] = self._channel(lane)
            indices = [substitute(index, place) for index in weight.indices]
            bases.append(self.emitter.offset(weight.source, indices))
        self._turn_in(weight.source, bases, int64(self.taps), self.weights)

    def _reduce_axes(self) -> list[Axis]:
        return list(self.window.reduction.reduce_axes)

    def _pixel(self, y: Expr, x: Expr) -> None:
        """Emit the window at one output pixel, and what follows it."""
        emitter, window = self.emitter, self.window
        reduction = window.reduction
        identity = tirx.Broadcast(reduction.identity, self.lanes)
        total = emitter.allocate([int64(self.lanes)], "float32", "sum")
        whole = at(total, self._vector(int64(0)))
        emitter.add(tirx.BufferStore(total, identity, whole))
        row = y * int64(window.vertical.stride) + int64(window.vertical.offset)
        column = x * int64(window.horizontal.stride) + int64(window.horizontal.offset)
        origin = emitter.opaque(row * self.padded_width + column, "origin")
        point: dict[Var, Expr] = {axis.var: int64(0) for axis in self._reduce_axes()}
        channel = self.first + emitter.lane
        output = [self.image, channel, y, x]
        point |= dict(zip((axis.var for axis in reduction.axes), output, strict=True))
        vertical, horizontal = window.window
        with (
            emitter.loop(int64(0), vertical.extent, "tap_y", ForKind.UNROLLED) as tap_y,
            emitter.loop(int64(0), horizontal.extent, "tap_x", ForKind.UNROLLED) as tap_x,
        ):
            place = tap_y * int64(window.vertical.dilation) * self.padded_width
            place = origin + place + tap_x * int64(window.horizontal.dilation)
            pixel = tirx.BufferLoad(self.padded, at(self.padded, self._vector(place)))
            emitter.resident[window.image] = lambda _emitter, _indices: pixel
            if self.matched.weight is not None:
                tap = self._vector(tap_y * horizontal.extent + tap_x)
                weight = tirx.BufferLoad(self.weights, at(self.weights, tap))
                emitter.resident[self.matched.weight.source] = lambda _emitter, _indices: weight
            env = {**point, vertical.var: tap_y, horizontal.var: tap_x}
            term = emitter.widen(reduce_term(emitter, reduction, env))
            value = combine(reduction.combiner, tirx.BufferLoad(total, whole), term)
            emitter.add(tirx.BufferStore(total, value, whole))
            del emitter.resident[window.image]
            if self.matched.weight is not None:
                del emitter.resident[self.matched.weight.source]
        value = tirx.BufferLoad(total, whole)
        if not window.output.is_reduction:
            emitter.resident[reduction.buffer] = lambda _emitter, _indices: value
            with emitter.tail(self.count):
                value = emitter.widen(emitter.element(window.output, output))
            del emitter.resident[reduction.buffer]
        place = at(self.results, self._vector(y * self.width + x))
        emitter.add(tirx.BufferStore(self.results, value, place))

    def _store_planes(self) -> None:
        """Turn the results back and store them."""
        emitter, lanes = self.emitter, int64(self.lanes)
        plane = self.height * self.width
        output = self.window.output.buffer
        tiles = op.truncdiv(plane + lanes - int64(1), lanes)
        with emitter.loop(int64(0), emitter.analyzer.simplify(tiles), "tile") as tile:
            start = emitter.opaque(tile * lanes, "start")
            rows = [
                emitter.opaque(
                    tirx.BufferLoad(
                        self.results, at(self.results, self._vector(start + int64(number)))
                    ),
                    "row",
                )
                for number in range(self.lanes)
            ]
            left = op.min(plane - start, lanes)
            for lane, channel in enumerate(transpose(emitter, rows)):
                with emitter.branch(self.count > int64(lane)), emitter.tail(left):
                    base = self.image * self.channels + self.first + int64(lane)
                    emitter.store(output, base * plane + start + emitter.lane, channel)
