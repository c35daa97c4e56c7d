"""A compiled model loads without the compiler, runs at any shape, and bad files are refused."""

from __future__ import annotations

import copy
import subprocess
import sys
import threading

import numpy as np
import pytest
from runtime import tiny_model

import moonpoly
from moonpoly.error import ArtifactError, InputError, StorageError, TargetError


def _run(exe, n, m):
    x = np.linspace(-1, 1, n * 4, dtype=np.float32).reshape(n, 4)
    y = np.arange(n * m, dtype=np.float32).reshape(n, m)
    got = exe(**{"x": x, "y:0": y})
    np.testing.assert_array_equal(got["positive"], np.maximum(x, 0))
    np.testing.assert_array_equal(got["next"], y + 1)


def test_runs_at_many_shapes(tiny):
    for n, m in [(1, 1), (3, 5), (7, 1), (64, 33), (2, 4096)]:
        _run(tiny, n, m)


@pytest.mark.parametrize(("n", "m"), [(0, 5), (3, 0), (0, 0)])
def test_runs_with_a_dimension_of_zero(tiny, n, m):
    _run(tiny, n, m)


def test_names_inputs_and_outputs(tiny):
    assert [str(spec) for spec in tiny.inputs] == ["x: float32[n, 4]", "y:0: float32[n, m]"]
    assert [spec.name for spec in tiny.outputs] == ["positive", "next"]
    assert tiny.metadata["name"] == "tiny"


def test_a_broken_equality_names_the_dimension_and_both_places(tiny):
    with pytest.raises(InputError, match=r"dimension n .* got 2 at axis 0 of 'x' and 3 at axis 0"):
        tiny(**{"x": np.zeros((2, 4), np.float32), "y:0": np.zeros((3, 1), np.float32)})


def test_runs_from_many_threads_at_once(tiny):
    failures = []

    def work(n):
        try:
            for _ in range(20):
                _run(tiny, n, n + 1)
        except AssertionError as err:
            failures.append(err)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_an_output_never_shares_memory_with_an_input_or_a_later_call(tiny):
    x = np.ones((2, 4), np.float32)
    first = tiny(**{"x": x, "y:0": x})["next"]
    kept = first.copy()
    tiny(**{"x": x, "y:0": 5 * x})
    np.testing.assert_array_equal(first, kept)


def test_runs_in_a_fresh_process_without_the_compiler(tiny_path):
    code = (
        "import sys, numpy as np, moonpoly\n"
        "exe = moonpoly.load(sys.argv[1])\n"
        "out = exe(**{'x': np.ones((2, 4), 'float32'), 'y:0': np.ones((2, 3), 'float32')})\n"
        "assert out['next'].shape == (2, 3) and (out['next'] == 2).all()\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'tvm', 'onnx', 'xgboost'}, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tiny_path)], check=True, timeout=120)


def test_saves_a_copy_that_loads(tiny, tmp_path):
    tiny.save(tmp_path / "copy.so")
    _run(moonpoly.load(tmp_path / "copy.so"), 2, 3)
    assert [p.name for p in tmp_path.iterdir()] == ["copy.so"]


def test_saving_into_a_missing_folder_is_a_storage_error(tiny, tmp_path):
    with pytest.raises(StorageError, match="can't write"):
        tiny.save(tmp_path / "missing" / "copy.so")


def test_a_missing_file_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError, match="can't read"):
        moonpoly.load(tmp_path / "none.so")
    with pytest.raises(StorageError, match="can't read"):
        moonpoly.load(tmp_path)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_model_is_refused_without_a_crash(tiny_path, tmp_path, part):
    data = tiny_path.read_bytes()
    cut = tmp_path / "cut.so"
    cut.write_bytes(data[: int(part * len(data))])
    with pytest.raises(ArtifactError, match=r"truncated|not a compiled model"):
        moonpoly.load(cut)


def test_a_foreign_file_is_refused(tmp_path):
    text = tmp_path / "text.so"
    text.write_text("this is no library " * 100)
    with pytest.raises(ArtifactError, match="not a compiled model"):
        moonpoly.load(text)


def test_a_foreign_library_is_refused():
    import tvm_ffi.libinfo

    with pytest.raises(ArtifactError, match="not a compiled model"):
        moonpoly.load(tvm_ffi.libinfo.find_libtvm_ffi())


def test_a_library_of_another_machine_is_refused(tiny_path, tmp_path):
    data = bytearray(tiny_path.read_bytes())
    data[18:20] = (183).to_bytes(2, "little")
    other = tmp_path / "arm.so"
    other.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"built for aarch64, expected x86-64"):
        moonpoly.load(other)


def test_a_model_of_stock_tvm_is_refused(tmp_path):
    path = tiny_model.build(tmp_path / "stock.so", metadata=None)
    with pytest.raises(ArtifactError, match="compiled by TVM without MoonPoly"):
        moonpoly.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (b"{not json", "holds no MoonPoly metadata"),
        (b"[]", "holds no MoonPoly metadata"),
        ({"schema": 99}, r"schema 99.* this is .*schema 1"),
        ({"moonpoly": "0.0.1"}, r"compiled by moonpoly 0\.0\.1"),
        ({"inputs": [{"name": "x"}]}, "damaged metadata"),
    ],
)
def test_damaged_or_other_metadata_is_refused(tmp_path, change, message):
    metadata = change if isinstance(change, bytes) else copy.deepcopy(tiny_model.METADATA) | change
    path = tiny_model.build(tmp_path / "bad.so", metadata=metadata)
    with pytest.raises(ArtifactError, match=message):
        moonpoly.load(path)


def test_a_model_for_a_better_machine_is_refused(tmp_path):
    target = {"name": "x86-next", "features": ["avx2", "avx9000"]}
    path = tiny_model.build(
        tmp_path / "next.so", metadata=copy.deepcopy(tiny_model.METADATA) | {"target": target}
    )
    with pytest.raises(TargetError, match="lacks avx9000"):
        moonpoly.load(path)
