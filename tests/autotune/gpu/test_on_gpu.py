"""Kernels are right on a GPU: ragged shapes, cut reductions, the same bits twice.

Run on a machine with a Hopper GPU: ``pytest -m gpu tests/autotune/gpu``.
"""

from __future__ import annotations

import numpy as np
import pytest

from moonpoly.autotune.gpu.launch import Launch, bench
from moonpoly.autotune.gpu.measure import checks
from moonpoly.target import gpu_features

from .conftest import KINDS, PAIRS, types_of
from .float8_sums import float8_sums

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif("sm_90" not in gpu_features(), reason="needs a Hopper GPU"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_computes_what_numpy_does(compiled, kind):
    kernels, image = compiled
    on = bench("float16")
    function, slots = on.load(kernels[kind], image)
    config = kernels[kind].program.config
    ragged = [Launch(1, 1, 8)]
    if config.loads != "gemv":
        ragged.append(Launch(config.um + 1, config.un - 1, 1000))
    for launch in (*checks(kernels[kind]), *ragged):
        on.check(kernels[kind], function, slots, launch)


@pytest.mark.parametrize("kind", ["split", "split-swapped", "strided"])
def test_a_cut_reduction_gives_the_same_bits_twice(compiled, kind):
    kernels, image = compiled
    on = bench("float16")
    function, slots = on.load(kernels[kind], image)
    config = kernels[kind].program.config
    launch = Launch(100, 72, 5000, 8, 3)
    results = []
    for _ in range(5):
        on.launcher(kernels[kind], function, slots, launch)()
        results.append(on.result(launch, config.out_dtype).tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("types", PAIRS, ids=map(":".join, PAIRS))
def test_every_type_computes_what_numpy_does(typed, types):
    on = bench(types[0])
    for kernel in (k for k in typed.kernels if types_of(k) == types):
        function, slots = on.load(kernel, typed.image)
        for launch in (*checks(kernel), Launch(1, 1, 16), Launch(65, 15, 1040)):
            on.check(kernel, function, slots, launch)


def test_sums_of_float8_are_cut_off_as_the_bounds_assume(typed):
    on = bench("float8_e4m3fn")
    [kernel] = [k for k in typed.kernels if types_of(k) == ("float8_e4m3fn", "float32")]
    function, slots = on.load(kernel, typed.image)
    launch = Launch(65, 15, 1040)
    on.launcher(kernel, function, slots, launch)()
    found = on.result(launch, "float32")
    a, b = on.operands(launch, launch.k)
    assert np.array_equal(found, float8_sums(a, b))
    assert not np.array_equal(found, a @ b.T)
