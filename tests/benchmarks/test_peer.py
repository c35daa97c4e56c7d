"""Peers as real processes; NumPy is the one contender that is always installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from moonpoly.benchmarks import contest, peer
from moonpoly.benchmarks.operands import Operands, aligned_copy, worst_error
from moonpoly.benchmarks.shape_lists import Problem
from moonpoly.benchmarks.tolerances import OPERATOR_REL

PROTOCOL = contest.Protocol(sample_us=200.0, rounds=2)

# More idle CPU than this in the time of another's turn would be a spinning pool.
IDLE_CPU_S = 0.05


@pytest.fixture
def two_peers():
    with peer.Peer("openblas", 1) as first, peer.Peer("openblas", 2) as second:
        first.name, second.name = "one", "two"
        yield [first, second]


def test_environment_fixes_the_threads_and_drops_foreign_tuning(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "512")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    monkeypatch.setenv("MOONPOLY_CACHE_DIR", "/somewhere")
    env = peer.environment(3)
    assert not {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_WAIT_POLICY"} & set(env)
    assert env["OMP_NUM_THREADS"] == env["TVM_NUM_THREADS"] == env["MKL_NUM_THREADS"] == "3"
    assert env["MOONPOLY_CACHE_DIR"] == "/somewhere"


def test_contenders_are_measured_checked_and_asleep_between_turns(two_peers):
    for problem in (Problem("test", 1, 1, 1), Problem("test", 129, 65, 257)):
        result = contest.measure(problem, two_peers, PROTOCOL)
        assert set(result.timings) == {"one", "two"}
        for ways in result.timings.values():
            assert len(ways["matmul"].samples_us) == PROTOCOL.rounds
            assert ways["matmul"].us > 0
            assert ways["matmul"].error <= OPERATOR_REL
    assert all(each.idle_cpu_s < IDLE_CPU_S for each in two_peers)
    assert "openblas" in two_peers[0].facts["version"]


def test_a_contender_that_is_not_installed_names_the_extra(tmp_path, monkeypatch):
    # A package found first on the path that fails like one that is not installed.
    (tmp_path / "onnxruntime.py").write_text(
        "raise ModuleNotFoundError('not here', name='onnxruntime')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(peer.BenchmarkError, match=r"needs the package 'onnxruntime'.*\[bench\]"):
        peer.Peer("onnxruntime", 1)


def test_a_process_that_dies_is_an_error_with_its_last_line(tmp_path, monkeypatch):
    (tmp_path / "dying_worker.py").write_text("raise SystemExit('no luck today')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(peer.BenchmarkError, match="ended with code 1: no luck today"):
        peer.Peer("any", 1, "dying_worker")


def test_operands_are_aligned_distinct_and_reused():
    operands = Operands()
    a, b, c = operands(7, 13, 31)
    assert (a.shape, b.shape, c.shape) == ((7, 31), (31, 13), (7, 13))
    assert all(x.ctypes.data % 64 == 0 and x.flags.c_contiguous for x in (a, b, c))
    assert not np.shares_memory(a, b)
    assert np.ptp(a) > 1.0
    assert operands(5, 5, 5)[0].ctypes.data == a.ctypes.data


def test_worst_error_sees_a_wrong_entry_and_a_missing_one(rng):
    a = rng.standard_normal((3, 50)).astype(np.float32)
    b = rng.standard_normal((50, 2)).astype(np.float32)
    c = a @ b
    assert worst_error(a, b, c) <= OPERATOR_REL
    wrong = c.copy()
    wrong[1] += 0.1
    assert worst_error(a, b, wrong) > OPERATOR_REL
    wrong[:] = np.nan
    assert not worst_error(a, b, wrong) <= OPERATOR_REL


@pytest.mark.parametrize("shape", [(), (0, 3), (5, 7)])
def test_aligned_copy(shape):
    array = np.full(shape, 3, np.int64)
    copy = aligned_copy(array)
    # NumPy gives an array without elements any address.
    assert copy.size == 0 or copy.ctypes.data % 64 == 0
    np.testing.assert_array_equal(copy, array)


def test_workers_use_this_interpreter():
    with peer.Peer("openblas", 1) as one:
        assert one._process.args[0] == sys.executable
