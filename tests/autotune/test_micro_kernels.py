"""Every exported micro-kernel against float64, in every layout of its contract."""

from __future__ import annotations

import json

import numpy as np
import pytest
from autotune.operands import Guarded, panels
from tolerances import OPERATOR_REL

from moonpoly.autotune.generate import FAR_PANELS, FAR_ROWS
from moonpoly.autotune.sources import installed_sources
from moonpoly.target import Target, target_names
from moonpoly.workload import Workload


def _kernels():
    for name in target_names("llvm"):
        path = installed_sources(Target.parse(name), Workload()).records
        for line in path.read_text().splitlines():
            record = json.loads(line)
            yield pytest.param(name, record, id=record["kernel"])


KERNELS = list(_kernels())

# (m_tiles, n_tiles, k): single tiles, several, and reductions around the vector length, the unroll
# factors and a prefetch's reach.
SHAPES = [
    (1, 1, 1),
    (1, 1, 2),
    (2, 1, 3),
    (1, 3, 5),
    (2, 2, 16),
    (3, 1, 17),
    (1, 2, 67),
    (2, 3, 259),
]


def _check(c, want, scale):
    bound = OPERATOR_REL["float32"] * scale + np.finfo(np.float32).tiny
    assert np.all(np.abs(c.view - want) <= bound)
    assert c.untouched_outside()


def _problem(rng, tile, shape):
    m_tiles, n_tiles, k = shape
    m, n = m_tiles * tile["um"], n_tiles * tile["un"]
    a = rng.standard_normal((m, k)).astype(np.float32)
    b = rng.standard_normal((k, n)).astype(np.float32)
    c = rng.standard_normal((m, n)).astype(np.float32)
    exact = a.astype(np.float64) @ b
    scale = np.abs(a).astype(np.float64) @ np.abs(b)
    return a, b, c, exact, scale


def _b_forms(family, b, lanes):
    k, n = b.shape
    if family == "dot":
        yield Guarded(b.T, (k, 1))
        yield Guarded(b.T, (k + 5, 1))
    else:
        yield Guarded(panels(b, lanes), (k * lanes, lanes, 1))
        yield Guarded(panels(b, lanes), (lanes, n + 3, 1))


def _a_forms(family, a):
    m, k = a.shape
    yield Guarded(a, (k, 1))
    yield Guarded(a, (k + 9, 1))
    if family == "outer":
        yield Guarded(a, (1, m))
        yield Guarded(a, (1, m + 2))


@pytest.mark.parametrize("accumulate", [0, 1])
@pytest.mark.parametrize(("target", "tile"), KERNELS)
def test_a_kernel_is_right_in_every_layout(kernels_of, rng, target, tile, accumulate):
    library = kernels_of(target)
    lanes = Target.parse(target).vector_lanes["float32"]
    for shape in SHAPES:
        a, b, start, exact, scale = _problem(rng, tile, shape)
        n = start.shape[1]
        want = exact + accumulate * start.astype(np.float64)
        for a_form in _a_forms(tile["family"], a):
            for b_form in _b_forms(tile["family"], b, lanes):
                for ldc in (n, n + 11):
                    c = Guarded(start, (ldc, 1))
                    library[tile["kernel"]](a_form.tensor, b_form.tensor, c.tensor, accumulate)
                    _check(c, want, scale + accumulate * np.abs(start))


@pytest.mark.parametrize(("target", "tile"), KERNELS)
def test_a_kernel_reads_nothing_but_its_operands(kernels_of, rng, target, tile):
    # The guard around A and B is NaN: a sum that touched one would not be a number.
    library = kernels_of(target)
    lanes = Target.parse(target).vector_lanes["float32"]
    a, b, start, exact, scale = _problem(rng, tile, (2, 2, 19))
    for a_form in _a_forms(tile["family"], a):
        for b_form in _b_forms(tile["family"], b, lanes):
            for form in (a_form, b_form):
                values = form.view.copy()
                form.memory.fill(np.nan)
                form.view[...] = values
            c = Guarded(start, (start.shape[1], 1))
            library[tile["kernel"]](a_form.tensor, b_form.tensor, c.tensor, 0)
            _check(c, exact, scale)


@pytest.mark.parametrize("target", target_names("llvm"))
def test_versions_for_operands_from_memory_compute_the_same(kernels_of, rng, target):
    library = kernels_of(target)
    lanes = Target.parse(target).vector_lanes["float32"]
    for param in KERNELS:
        name, tile = param.values
        if name != target or tile["family"] != "outer":
            continue
        a, b, start, _, _ = _problem(rng, tile, (3, 2, 37))
        a_form, b_form = next(_a_forms("outer", a)), next(_b_forms("outer", b, lanes))
        c = {version: Guarded(start, (start.shape[1], 1)) for version in ("", FAR_PANELS, FAR_ROWS)}
        for version, out in c.items():
            library[tile["kernel"] + version](a_form.tensor, b_form.tensor, out.tensor, 1)
            assert np.array_equal(out.view, c[""].view), tile["kernel"] + version
            assert out.untouched_outside()


@pytest.mark.parametrize("target", target_names("llvm"))
def test_every_small_height_is_two_whole_tiles_at_most(target):
    kept = [param.values[1] for param in KERNELS if param.values[0] == target]
    heights = {tile["um"] for tile in kept if tile["family"] == "outer"}
    for rows in range(1, 15):
        assert any(rows - um in heights | {0} for um in heights), rows


@pytest.mark.parametrize("target", target_names("llvm"))
def test_no_more_kernels_are_kept_than_asked(target):
    assert 1 < len([param for param in KERNELS if param.values[0] == target]) <= 40
