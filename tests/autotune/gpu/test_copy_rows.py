"""Threads that copy a staged block to C item by item store each item inside of C once, no other."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from moonpoly.tir_templates.wgmma.copy_rows import _narrow

WARP, WARPGROUP = 32, 128


def copied(height, width, threads, row, column, end, column_end, ldc, rows):
    """Return C after all threads, one after the other, have copied a block of 1, 2, 3, ..."""
    copy = _narrow("float32", 1, height, width, threads)

    @T.prim_func(private=True)
    def run(c: T.handle, s: T.handle):
        C = T.match_buffer(c, (rows * ldc,), "float32")
        staged = T.match_buffer(s, (height, width), "float32")
        for tid in T.serial(threads):
            copy(C, staged, 0, row, column, tid, end, column_end, ldc)

    module = tvm.IRModule({"run": run.with_attr("global_symbol", "run")})
    built = tvm.compile(module, "llvm")
    staged = np.arange(1, height * width + 1, dtype="float32").reshape(height, width)
    c = tvm.runtime.tensor(np.zeros(rows * ldc, "float32"))
    built["run"](c, tvm.runtime.tensor(staged))
    return c.numpy().reshape(rows, ldc), staged


@pytest.mark.parametrize("threads", [WARP, WARPGROUP])
@pytest.mark.parametrize("width", [8, 24, 40, 56, 64])
@pytest.mark.parametrize(("left", "below"), [(0, 0), (1, 1), (7, 3), (64, 16)])
def test_all_of_a_block_that_lies_inside_of_c_is_stored(threads, width, left, below):
    height = 16
    row, column, ldc, rows = 5, 64, 64 + width + 3, 5 + height + 2
    end, column_end = row + height - below, column + max(width - left, 0)
    c, staged = copied(height, width, threads, row, column, end, column_end, ldc, rows)
    expected = np.zeros_like(c)
    expected[row:end, column:column_end] = staged[: end - row, : column_end - column]
    np.testing.assert_array_equal(c, expected)
