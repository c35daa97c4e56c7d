"""The public names are these, each is documented, and importing the package stays light."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import moonpoly
from moonpoly import error
from moonpoly.benchmarks.peer import BenchmarkError

PUBLIC = {
    "Executable",
    "MoonPolyError",
    "Target",
    "Workload",
    "__version__",
    "compile",
    "load",
    "matmul",
    "plan",
}


def test_the_public_names_are_these():
    assert set(moonpoly.__all__) == PUBLIC
    assert set(dir(moonpoly)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_every_public_name_is_documented(name):
    assert inspect.getdoc(getattr(moonpoly, name))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("compile", ["model", "target", "dim_hints", "dims", "open_inputs"]),
        ("load", ["path"]),
        ("matmul", ["a", "b", "out", "target", "overlap", "allow_tf32"]),
        ("plan", ["m", "n", "k", "b", "dtype", "target", "threads"]),
    ],
)
def test_the_signatures_are_kept(name, parameters):
    assert list(inspect.signature(getattr(moonpoly, name)).parameters) == parameters


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        moonpoly.nothing  # noqa: B018


def test_importing_the_package_loads_no_compiler():
    code = "import sys, moonpoly; print(*{name.split('.')[0] for name in sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert not {"tvm", "onnx", "xgboost", "torch", "numpy"} & set(out.stdout.split())


def test_each_kind_of_error_has_its_own_exit_code():
    kinds = [kind for kind in vars(error).values() if inspect.isclass(kind)]
    codes = sorted(kind.exit_code for kind in kinds if issubclass(kind, moonpoly.MoonPolyError))
    assert codes == [1, *range(3, 10)]
    # The benchmarks add one of their own, for a peer that is missing or breaks.
    assert BenchmarkError.exit_code not in codes
