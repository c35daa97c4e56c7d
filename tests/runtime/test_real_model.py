"""A real model from any thread, at a batch of zero, and in a process without the compiler."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import moonpoly
from moonpoly import runtime
from moonpoly.error import InputError
from moonpoly.model_registry import TIMED

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def minilm():
    return moonpoly.compile(TIMED[0].path())


def test_gives_the_same_from_many_threads_at_once(minilm):
    model = TIMED[0]
    rng = np.random.default_rng(3)
    cases = [model.inputs(shape, rng) for shape in ((1, 9), (2, 37), (3, 20), (4, 5))]
    want = [minilm(**inputs) for inputs in cases]
    wrong = []

    def work(index):
        for _ in range(5):
            got = minilm(**cases[index])
            if any(not np.array_equal(got[name], want[index][name]) for name in got):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i % len(cases),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_batch_of_zero_gives_outputs_of_zero(minilm):
    got = minilm(input_ids=np.zeros((0, 7), np.int64), attention_mask=np.zeros((0, 7), np.int64))
    assert all(value.shape[0] == 0 for value in got.values())


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        ((2, 5), (3, 5), "dimension batch_size must be the same everywhere"),
        ((2, 5), (2, 6), "dimension sequence_length must be the same everywhere"),
        ((1, 513), (1, 513), "sequence_length can be 512 at most"),
        ((5,), (5,), "must have rank 2"),
    ],
)
def test_a_shape_that_the_model_can_not_take_is_refused(minilm, ids, mask, message):
    with pytest.raises(InputError, match=message):
        minilm(input_ids=np.zeros(ids, np.int64), attention_mask=np.ones(mask, np.int64))


def test_a_saved_model_runs_in_a_process_without_the_compiler(minilm, tmp_path):
    minilm.save(tmp_path / "m.so")
    inputs = TIMED[0].inputs((2, 11), np.random.default_rng(5))
    runtime.write_npz(tmp_path / "in.npz", inputs)
    code = (
        "import sys, moonpoly\n"
        "from moonpoly import runtime\n"
        "out = moonpoly.load('m.so')(**runtime.read_npz('in.npz'))\n"
        "runtime.write_npz('out.npz', out)\n"
        "assert not {'tvm', 'onnx', 'xgboost'} & {name.split('.')[0] for name in sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=300)
    got = runtime.read_npz(tmp_path / "out.npz")
    for name, value in minilm(**inputs).items():
        np.testing.assert_array_equal(got[name], value)
