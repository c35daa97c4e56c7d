"""Sliding windows over images: depthwise and small-group convolution, max and average pooling.

Neighbouring columns of an output row lie in the lanes, and a block of rows in registers. The rows
of the image that a band of output rows needs are first copied, padding included, to scratch memory
that stays in the cache; there no load needs a mask, and the window moves over it freely.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr, Var
from tvm.tirx import ForKind, op

from moonpoly.compiler.schedule.emitter import Emitter
from moonpoly.compiler.schedule.expression import (
    constant_int,
    int64,
    loads,
    substitute,
)
from moonpoly.compiler.schedule.partition import OPERATION_PS, share, vectors
from moonpoly.compiler.schedule.rule_channels import emit_channels, match_channels
from moonpoly.compiler.schedule.rule_reduce import combine, reduce_term
from moonpoly.compiler.schedule.vector_builder import at
from moonpoly.compiler.schedule.window import WindowProgram
from moonpoly.error import UnsupportedError

# Output rows whose sums are kept in registers together: each image row is loaded once for all.
BLOCK_ROWS = 4
# Blocks of rows that share one copy of the image.
BAND_BLOCKS = 8
# Narrower rows leave so many lanes empty that it pays to put channels there instead.
NARROW = 10


def emit_window(emitter: Emitter, matched: WindowProgram) -> None:
    """Emit a window program."""
    try:
        channels = match_channels(matched)
    except UnsupportedError:
        _emit_rows(emitter, matched)
        return
    width = matched.reduction.axes[-1].extent
    fixed = constant_int(width)
    if fixed is None:
        with emitter.scope() as narrow:
            emit_channels(emitter, channels)
        with emitter.scope() as wide:
            _emit_rows(emitter, matched)
        emitter.choose(width <= int64(NARROW), narrow, wide)
    elif fixed <= NARROW:
        emit_channels(emitter, channels)
    else:
        _emit_rows(emitter, matched)


def _emit_rows(emitter: Emitter, matched: WindowProgram) -> None:
    """Emit a window program with columns in the lanes."""
    height = matched.reduction.axes[-2].extent
    fixed = constant_int(height)
    if fixed is None:
        with emitter.scope() as tall:
            _Tiles(emitter, matched, BLOCK_ROWS).emit()
        with emitter.scope() as flat:
            _Tiles(emitter, matched, 1).emit()
        emitter.choose(height >= int64(BLOCK_ROWS), tall, flat)
    else:
        _Tiles(emitter, matched, max(min(BLOCK_ROWS, fixed), 1)).emit()


class _Tiles:
    """The loops over bands, blocks of rows and vectors of columns."""

    def __init__(self, emitter: Emitter, matched: WindowProgram, block_rows: int) -> None:
        self.emitter = emitter
        self.matched = matched
        self.block_rows = block_rows
        reduction = matched.reduction
        self.height = reduction.axes[-2].extent
        self.width = reduction.axes[-1].extent
        self.window_y = int(matched.window[0].extent)
        self.window_x = int(matched.window[1].extent)
        lanes = emitter.lanes
        vertical, horizontal = matched.vertical, matched.horizontal
        band_rows = BAND_BLOCKS * block_rows
        reach = horizontal.dilation * (self.window_x - 1)
        num_vectors = op.truncdiv(self.width + int64(lanes - 1), int64(lanes))
        # Rounded up to whole vectors, so that every load of the window ends inside.
        self.scratch_width = emitter.analyzer.simplify(
            num_vectors * int64(lanes * horizontal.stride) + int64(reach + lanes)
        )
        self.scratch_rows = (
            vertical.stride * (band_rows - 1) + vertical.dilation * (self.window_y - 1) + 1
        )
        self.num_channels = matched.channels[0].extent if matched.channels else int64(1)
        self.scratch: Var | None = None
        self.scratch_size: Expr = int64(0)

    def emit(self) -> None:
        """Emit the loops."""
        emitter = self.emitter
        # TVM moves allocations to the front, so their size must not depend on a binding.
        self.scratch_size = self.num_channels * int64(self.scratch_rows) * self.scratch_width
        self.scratch_width = emitter.opaque(self.scratch_width, "scratch_width")
        leading = [axis.extent for axis in self.matched.reduction.axes[:-2]]
        rows = int64(self.block_rows * BAND_BLOCKS)
        bands = emitter.analyzer.simplify(op.truncdiv(self.height + rows - int64(1), rows))
        taps = int64((self.window_y * self.window_x + 6) * OPERATION_PS)
        area = op.min(self.height, rows) * (self.width + int64(emitter.lanes - 1))
        item_ps = op.truncdiv(area * taps * self.num_channels, int64(emitter.lanes))
        share(emitter, [*leading, bands], item_ps, self._band, self._allocate)

    def _allocate(self) -> None:
        dtype = str(self.matched.image.ty.dtype)
        self.scratch = self.emitter.allocate([self.scratch_size], dtype, "scratch")

    def _band(self, indices: list[Expr]) -> None:
        """Emit one band of output rows of one plane."""
        emitter, block = self.emitter, int64(self.block_rows)
        *leading, band = indices
        self.leading = leading
        first_block = band * int64(BAND_BLOCKS)
        # The last block is moved up to end with the image: it computes some rows a second time.
        limit = self.height - block
        first = emitter.bind(op.min(first_block * block, limit), "first_row")
        stop = emitter.bind(
            op.min((first_block + int64(BAND_BLOCKS)) * block, self.height), "stop_row"
        )
        self.first = first
        self._copy_image(first, stop)
        num_blocks = op.truncdiv(stop - first + block - int64(1), block)
        with emitter.loop(int64(0), emitter.bind(num_blocks, "num_blocks"), "block") as number:
            row = emitter.bind(op.min(first + number * block, limit), "row")
            vectors(emitter, int64(0), self.width, lambda column: self._tile(row, column))

    def _copy_image(self, first: Expr, stop: Expr) -> None:
        """Copy the rows of the image under a band to scratch memory."""
        emitter, matched = self.emitter, self.matched
        vertical, horizontal = matched.vertical, matched.horizontal
        top = vertical.stride * first + int64(vertical.offset)
        count = int64(vertical.stride) * (stop - first - int64(1)) + int64(
            vertical.dilation * (self.window_y - 1) + 1
        )
        columns = int64(horizontal.stride) * (self.width - int64(1)) + int64(
            horizontal.dilation * (self.window_x - 1) + 1
        )
        reduction = matched.reduction
        place = dict(zip((axis.var for axis in reduction.axes[:-2]), self.leading, strict=True))
        with emitter.loop(int64(0), self.num_channels, "channel") as channel:
            inside = {**place, **{axis.var: channel for axis in reduction.reduce_axes[:-2]}}
            planes = [substitute(index, inside) for index in matched.image_leading]
            with emitter.loop(int64(0), emitter.bind(count, "count"), "image_row") as row:

                def copy(column: Expr) -> None:
                    y = emitter.analyzer.simplify(top + row)
                    x = emitter.analyzer.simplify(column + int64(horizontal.offset))
                    value = self._image(planes, y, x)
                    emitter.store(
                        self._scratch(), self._scratch_offset(channel, row, column), value
                    )

                vectors(emitter, int64(0), columns, copy)

    def _image(self, planes: list[Expr], y: Expr, x: Expr) -> Expr:
        """Return an element of the image, padding included."""
        image = self.matched.image
        producer = self.matched.program.producers.get(image)
        if producer is not None:
            return self.emitter.element(producer, [*planes, y, x])
        return self.emitter.load(image, self.emitter.offset(image, [*planes, y, x]))

    def _scratch(self) -> Var:
        if self.scratch is None:
            raise UnsupportedError("expected scratch memory to be allocated first")
        return self.scratch

    def _scratch_offset(self, channel: Expr, row: Expr, column: Expr) -> Expr:
        row = channel * int64(self.scratch_rows) + row
        return self.emitter.analyzer.simplify(row * self.scratch_width + column)

    def _tile(self, row: Expr, column: Expr) -> None:
        """Emit a block of rows, one vector wide."""
        emitter, matched = self.emitter, self.matched
        reduction, lanes = matched.reduction, emitter.lanes
        dtype = str(reduction.buffer.ty.dtype)
        sums = emitter.allocate([int64(self.block_rows * lanes)], dtype, "sums")
        identity = tirx.Broadcast(reduction.identity, lanes)

        rows = int64(self.block_rows)
        with emitter.loop(int64(0), rows, "y", ForKind.UNROLLED) as y:
            emitter.add(tirx.BufferStore(sums, identity, self._slot(sums, y)))
        with emitter.loop(int64(0), self.num_channels, "channel") as channel:
            self._sweep_window(row, column, channel, sums)
        with emitter.loop(int64(0), rows, "y", ForKind.UNROLLED) as y:
            self._finish(row + y, column, tirx.BufferLoad(sums, self._slot(sums, y)))

    def _slot(self, sums: Var, number: Expr) -> list[Expr]:
        lanes = self.emitter.lanes
        return at(sums, tirx.Ramp(number * int64(lanes), int64(1), lanes))

    def _sweep_window(self, row: Expr, column: Expr, channel: Expr, sums: Var) -> None:
        """Emit every tap of the window on every row of the block."""
        emitter, matched = self.emitter, self.matched
        vertical, horizontal = matched.vertical, matched.horizontal
        window_y, window_x = matched.window
        base_row = (row - self.first) * int64(vertical.stride)
        base_column = substitute(column, {emitter.lane: int64(0)}) * int64(horizontal.stride)
        origin = self._scratch_offset(channel, base_row, base_column)
        point = dict(zip((a.var for a in matched.reduction.axes[:-2]), self.leading, strict=True))
        point |= {axis.var: channel for axis in matched.reduction.reduce_axes[:-2]}
        point[matched.reduction.axes[-1].var] = column
        origin = emitter.opaque(origin, "origin")
        # TVM unrolls these loops late, and LLVM then finds the loads that rows have in common.
        # Column by column of the window, few weights and vectors of the image are live at a time.
        # Averages are summed row by row, as everybody does: of quantised numbers they are ties.
        by_rows = matched.reduction.combiner == "sum" and not self._has_weights()
        taps = [window_y, window_x] if by_rows else [window_x, window_y]
        with (
            emitter.loop(int64(0), taps[0].extent, "tap", ForKind.UNROLLED) as outer,
            emitter.loop(int64(0), taps[1].extent, "tap", ForKind.UNROLLED) as inner,
            emitter.loop(int64(0), int64(self.block_rows), "y", ForKind.UNROLLED) as y,
        ):
            tap_y, tap_x = (outer, inner) if by_rows else (inner, outer)
            line = y * int64(vertical.stride) + tap_y * int64(vertical.dilation)
            across = emitter.lane * int64(horizontal.stride) + tap_x * int64(horizontal.dilation)
            with emitter.unmasked():
                pixel = emitter.load(self._scratch(), origin + line * self.scratch_width + across)
                emitter.resident[matched.image] = lambda _emitter, _indices: pixel
                env = {**point, window_y.var: tap_y, window_x.var: tap_x}
                env[matched.reduction.axes[-2].var] = row + y
                term = emitter.widen(reduce_term(emitter, matched.reduction, env))
                del emitter.resident[matched.image]
            slot = self._slot(sums, y)
            value = combine(matched.reduction.combiner, tirx.BufferLoad(sums, slot), term)
            emitter.add(tirx.BufferStore(sums, value, slot))

    def _has_weights(self) -> bool:
        """Return whether what is summed is more than the image."""
        return sum(1 for _ in loads(self.matched.reduction.value)) > 1

    def _finish(self, row: Expr, column: Expr, value: Expr) -> None:
        """Compute the output from a sum and store it."""
        emitter, matched = self.emitter, self.matched
        point = [*self.leading, row, column]
        if not matched.output.is_reduction:
            value = emitter.bind(value, "sum")
            emitter.resident[matched.reduction.buffer] = lambda _emitter, _indices: value
            value = emitter.element(matched.output, point)
            del emitter.resident[matched.reduction.buffer]
        emitter.store(matched.output.buffer, emitter.offset(matched.output.buffer, point), value)
