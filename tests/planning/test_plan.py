"""Plans are parsed from the selector's JSON and drawn whole."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ElementTree

import pytest

from moonpoly.error import InputError
from moonpoly.planning import Plan, draw_plan, plan


def _region(m0, m1, n0, n1, k0, k1, kernel="gemm_f32_avx512_14x32"):
    names = ("m0", "m1", "n0", "n1", "k0", "k1")
    return dict(zip(names, (m0, m1, n0, n1, k0, k1), strict=True)) | {
        "kernel": kernel,
        "tasks": 12,
        "waves": 6,
        "task_us": 1.5,
    }


def _plan(m, n, k, *regions, pattern="I"):
    return Plan.from_json(
        json.dumps(
            {
                "pattern": pattern,
                "m": m,
                "n": n,
                "k": k,
                "threads": 2,
                "predicted_us": 10.0,
                "regions": list(regions),
            }
        )
    )


PLANS = {
    "one region": _plan(100, 64, 32, _region(0, 100, 0, 64, 0, 32)),
    "a thin row": _plan(1, 4096, 4096, _region(0, 1, 0, 4096, 0, 4096, "gemm_f32_avx512_1x64")),
    "a thin column": _plan(8192, 1, 64, _region(0, 8192, 0, 1, 0, 64, "gemm_dot_f32_avx512_4x4")),
    "two along m": _plan(
        1000,
        768,
        768,
        _region(0, 994, 0, 768, 0, 768),
        _region(994, 1000, 0, 768, 0, 768, "gemm_f32_avx512_6x64"),
        pattern="II",
    ),
    "eight slices of k": _plan(
        64,
        64,
        32768,
        *(_region(0, 64, 0, 64, 4096 * i, 4096 * (i + 1)) for i in range(8)),
        pattern="K",
    ),
}


def test_a_plan_knows_its_tiles_and_speed():
    made = PLANS["two along m"]
    assert [region.tile for region in made.regions] == [(14, 32), (6, 64)]
    assert made.gflops == pytest.approx(2 * 1000 * 768 * 768 / 10.0 / 1e3)
    assert str(made) == "1000x768x768: pattern II, 14x32 [994x768] + 6x64 [6x768]"


@pytest.mark.parametrize("name", PLANS)
def test_the_picture_is_well_formed_and_stays_on_its_page(name):
    root = ElementTree.fromstring(draw_plan(PLANS[name]))
    width, height = float(root.get("width")), float(root.get("height"))
    for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
        if rect.get("x") is None:
            continue
        x, y = float(rect.get("x")), float(rect.get("y"))
        assert 0 <= x <= x + float(rect.get("width")) <= width
        assert 0 <= y <= y + float(rect.get("height")) <= height


@pytest.mark.parametrize("name", PLANS)
def test_the_picture_names_every_region(name):
    text = "".join(ElementTree.fromstring(draw_plan(PLANS[name])).itertext())
    for region in PLANS[name].regions:
        assert region.kernel in text
        assert f"{region.m0}–{region.m1}" in text
        assert f"{region.k0}–{region.k1}" in text


def test_regions_of_the_same_kernel_share_a_colour():
    svg = draw_plan(PLANS["eight slices of k"])
    root = ElementTree.fromstring(svg)
    fills = {
        rect.get("fill")
        for rect in root.iter("{http://www.w3.org/2000/svg}rect")
        if rect.get("rx") == "3"
    }
    assert len(fills) == 1


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((0, 1, 1), {}, "M must be at least 1, got 0"),
        ((1, -1, 1), {}, "N must be at least 1, got -1"),
        ((1, 1, 0), {}, "K must be at least 1, got 0"),
        ((1, 1, 1), {"b": "diagonal"}, "B must be one of constant, row, transposed"),
        ((1, 1, 1), {"threads": 0}, "threads must be at least 1"),
    ],
)
def test_a_wrong_question_is_refused(shape, options, message):
    with pytest.raises(InputError, match=message):
        plan(*shape, **options)


def test_a_gathered_operand_is_never_given_a_dot_kernel():
    # A convolution gathers panels, which dot kernels can't read.
    from moonpoly import _ffi_api
    from moonpoly.planning import plans
    from moonpoly.target import host_target
    from moonpoly.workload import Workload

    gathered = 3
    kernels = plans._kernel_set(host_target(), Workload())
    rng = random.Random(1)
    shapes = [(289, 290, 41), (512, 196, 256), (1024, 49, 512), (256, 49, 2304)]
    shapes += [tuple(round(2 ** rng.uniform(0, 11)) for _ in range(3)) for _ in range(500)]
    for shape in shapes:
        assert "dot" not in _ffi_api.plan(kernels, *shape, gathered, 2), shape


def test_a_plan_for_a_gpu_needs_no_gpu():
    found = plan(500, 768, 3072, target="cuda-sm90a")
    assert found.unit == "block"
    assert sum((r.m1 - r.m0) * (r.n1 - r.n0) for r in found.regions) == 500 * 768
    assert all(region.kernel.startswith("gemm_f16_sm90a_") for region in found.regions)
    assert 2 < found.predicted_us < 30
    assert "block" in draw_plan(found)
