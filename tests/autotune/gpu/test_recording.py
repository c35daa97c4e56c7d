"""Which shapes launches are recorded on, and how what is finished is kept."""

from __future__ import annotations

import pytest

from moonpoly.autotune.gpu.recording import LaunchLog
from moonpoly.autotune.gpu.shapes import access_of, drawn_shapes, operand_bytes, range_shapes
from moonpoly.tir_templates.wgmma.config import WgmmaConfig
from moonpoly.workload import Workload

from .conftest import KINDS, find_program


def test_drawn_shapes_are_of_every_kind_and_fewer_are_the_first_of_more():
    shapes = drawn_shapes(300, 0)
    assert len(set(shapes)) == 300
    assert drawn_shapes(40, 0) == shapes[:40]
    assert not set(drawn_shapes(300, 1)) & set(shapes)
    ways = {access_of(shape, "float16") for shape in shapes}
    assert ways == {"tma", "residue"}
    assert any(min(m, n) == 1 for m, n, _ in shapes)
    assert operand_bytes(shapes, Workload("gemm", "tf32")) < 2 << 30


@pytest.mark.parametrize("kind", KINDS)
def test_the_range_of_a_kernel_is_from_few_tiles_to_waves_of_them(kind):
    config = find_program(*KINDS[kind]).config
    shapes = range_shapes(config, 132)
    tiles = [-(-m // config.um) * -(-n // config.un) for m, n, _ in shapes]
    slots = 132 * config.blocks
    assert min(tiles) < 0.1 * slots
    assert max(tiles) > 1.5 * slots
    assert {k // 30 > 0 for *_, k in shapes} == {True}
    assert max(k for *_, k in shapes) > 4000
    odd = {k % config.item.aligned for *_, k in shapes}
    assert (odd != {0}) == (config.loads in ("residue", "direct", "strided"))
    if config.loads == "gemv":
        assert all(min(m, n) == 1 for m, n, _ in shapes)


def test_the_range_is_in_bytes_of_k():
    lengths = [
        max(k for *_, k in range_shapes(WgmmaConfig(64, 64, 4, dtype=dtype, out_dtype=out), 132))
        for dtype, out in (("int8", "int32"), ("tf32", "float32"))
    ]
    assert lengths[0] == 4 * lengths[1]


def test_a_step_that_was_not_written_to_its_end_is_done_again(tmp_path):
    path = tmp_path / "folder" / "log.jsonl"
    log = LaunchLog(path)
    log.add("1x1x1", [{"m": 1}])
    log.add("2x1x1", [])
    with path.open("a") as file:
        file.write('{"step":"3x1x1","rec')
    again = LaunchLog(path)
    assert again.of("1x1x1") == [{"m": 1}]
    assert again.of("2x1x1") == []
    assert again.of("3x1x1") is None
    again.add("3x1x1", [{"m": 3}])
    assert LaunchLog(path).of("3x1x1") == [{"m": 3}]
