"""Launch costs are fitted to samples, and the set of kernels is chosen by them."""

from __future__ import annotations

import numpy as np
import pytest

from moonpoly.autotune.gpu.cost_model import GRID, LaunchSample, fit
from moonpoly.autotune.gpu.launch import Launch, grid_of, tiles_of
from moonpoly.autotune.gpu.rank import Contender, SyntheticShapes, plan_us, rank, synthetic_shapes
from moonpoly.error import TuneError
from moonpoly.tir_templates.wgmma.config import WgmmaConfig

SMS = 132


def _samples(wave_us, step_us, *, cluster_us=0.0, noise=0.02, count=150):
    rng = np.random.default_rng(1)
    for number in range(count):
        k = float(round(np.exp(rng.uniform(2.5, 9.5))))
        load = float(np.exp(rng.uniform(-4, 2)))
        cut = number % 3 == 2
        us = 2.0 + np.ceil(load) * (wave_us + step_us * k) + cut * cluster_us
        us *= 1 + rng.normal() * noise
        yield LaunchSample(k, load, 1.0, 4 if cut else 1, 1, us)


def test_costs_are_those_of_the_samples():
    costs = fit("x", list(_samples(0.8, 4e-3)))
    k, load = np.array([64.0, 1000.0, 8000.0]), np.array([0.5, 1.0, 3.0])
    expected = 2.0 + np.ceil(load) * (0.8 + 4e-3 * k)
    assert costs.launch_us(k, load, np.ones(3)) == pytest.approx(expected, rel=0.06)


def test_adding_up_in_a_cluster_costs_what_samples_show():
    costs = fit("x", list(_samples(0.8, 4e-3, cluster_us=1.5, noise=0.0)))
    assert costs.cluster_us[2] == pytest.approx(1.5, rel=0.3)


def test_tables_are_laid_out_by_k_and_rise():
    table = fit("x", list(_samples(0.8, 4e-3))).table()
    us = np.array(table["us"]).reshape(len(GRID["k"]), len(GRID["load"]))
    assert (np.diff(us, axis=0) >= 0).all()
    assert (np.diff(us, axis=1) >= 0).all()


def test_too_few_samples_are_refused():
    with pytest.raises(TuneError, match="expected 12 or more"):
        fit("x", list(_samples(1, 1e-3, count=6)))


def _contender(um, un, wave_us, step_us, **kind):
    config = WgmmaConfig(um, un, 4, **kind)
    return Contender(config, fit("x", list(_samples(wave_us, step_us))), SMS)


def test_a_kernel_that_serves_what_no_other_can_is_kept_first():
    fast = _contender(128, 128, 0.3, 2e-3, consumers=2)
    slow_but_any = _contender(64, 64, 3.0, 5e-2, loads="strided")
    useless = _contender(128, 128, 0.6, 5e-3, consumers=2)
    ranking = rank([useless, fast, slow_but_any], synthetic_shapes(300), 48)
    assert ranking.kept[0] == 2
    assert set(ranking.kept) == {1, 2}
    assert ranking.loss == tuple(sorted(ranking.loss, reverse=True))


def test_a_cut_reduction_is_what_small_outputs_with_long_k_get():
    shapes = SyntheticShapes(
        np.array([16.0]), np.array([64.0]), np.array([32768.0]), np.array(["aligned"])
    )
    whole, split = (
        plan_us(_contender(16, 64, 0.5, 2e-3, swapped=True, split=cut), shapes)
        for cut in (False, True)
    )
    assert split[0] < whole[0] / 3


def test_tma_does_not_serve_rows_that_start_anywhere():
    shapes = SyntheticShapes(*(np.array([64.0]) for _ in range(3)), np.array(["odd"]))
    assert np.isinf(plan_us(_contender(64, 64, 0.5, 2e-3), shapes)[0])
    assert np.isfinite(plan_us(_contender(64, 64, 0.5, 2e-3, loads="strided"), shapes)[0])


@pytest.mark.parametrize(
    ("config", "launch", "tiles", "grid"),
    [
        (WgmmaConfig(128, 128, 4, consumers=2), Launch(129, 128, 64), 2, 2),
        (WgmmaConfig(128, 128, 4, consumers=2), Launch(4096, 4096, 64), 1024, 132),
        (WgmmaConfig(128, 128, 4, consumers=2, cluster_p=2), Launch(1, 1, 64), 2, 2),
        (WgmmaConfig(16, 64, 4, swapped=True, split=True), Launch(16, 65, 64, 4, 2), 2, 16),
    ],
)
def test_a_grid_is_one_wave_of_persistent_blocks_or_every_piece_of_every_tile(
    config, launch, tiles, grid
):
    assert tiles_of(config, launch) == tiles
    assert grid_of(config, launch, SMS) == grid
