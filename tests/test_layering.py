"""A module imports only what comes before it: the order below is the order of the data."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# From the ground up. What only runs a model is below all that builds one.
LAYERS = (
    "error",
    "config",
    "gpu_driver",
    "target",
    "workload",
    "_ffi_api",
    "runtime",
    "tir_templates",
    "schedules",
    "artifacts",
    "autotune",
    "planning",
    "compiler",
    "model_registry",
    "benchmarks",
    "cli",
)
# The front end's folders, from what knows nothing of a graph to what walks it.
FRONTEND_LAYERS = (
    "model",
    "node",
    "symbolic",
    "dimensions",
    "graph",
    "converters",
    "walk",
    "importer",
)
FOLDERS = {
    "tir_templates": ROOT / "tir_templates",
    "schedules": ROOT / "schedules",
    "artifacts": ROOT / "artifacts",
    "benchmarks": ROOT / "benchmarks",
    "model_registry": ROOT / "tests" / "models" / "model_registry",
}
PACKAGE = ROOT / "python" / "moonpoly"
FRONTEND = ("moonpoly", "compiler", "frontend")


def _modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ("moonpoly", *(part for part in parts if part != "__init__")), path
    for name, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ("moonpoly", name, *(part for part in parts if part != "__init__")), path


MODULES = dict(_modules())


def _imports(name, path, of_types=True):
    """Yield every name that a module imports, wherever in it, as dotted parts.

    Without ``of_types`` the names that only annotations need are left out.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not of_types:
        tree.body = [node for node in tree.body if not _is_type_checking(node)]
    package = name if path.name == "__init__.py" else name[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                yield (*base, alias.name)


def _is_type_checking(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _case(name):
    return pytest.param(name, id=".".join(name))


INNER = [_case(name) for name in MODULES if len(name) > 1]


def test_every_part_has_its_place():
    assert {name[1] for name in MODULES if len(name) > 1} <= set(LAYERS)


@pytest.mark.parametrize("name", INNER)
def test_a_module_imports_only_what_comes_before_it(name):
    own = LAYERS.index(name[1])
    for imported in _imports(name, MODULES[name]):
        if imported[0] != "moonpoly":
            continue
        if len(imported) == 1:
            # A benchmark measures what users call; the rest imports the part that it needs.
            assert name[1] == "benchmarks", "import the part, not the whole package"
            continue
        assert imported[1] in LAYERS, f"imports {'.'.join(imported)}, which has no place"
        assert LAYERS.index(imported[1]) <= own, f"imports {'.'.join(imported)} from above"


@pytest.mark.parametrize(
    "name", [_case(n) for n in MODULES if n[1:3] == FRONTEND[1:] and len(n) > len(FRONTEND)]
)
def test_a_module_of_the_front_end_imports_only_what_comes_before_it(name):
    own = FRONTEND_LAYERS.index(name[3])
    for imported in _imports(name, MODULES[name], of_types=False):
        if imported[:3] == FRONTEND:
            where = FRONTEND_LAYERS.index(imported[3])
            assert where <= own, f"imports {'.'.join(imported)} from above"


@pytest.mark.parametrize("name", [_case(n) for n in MODULES if n[1:2] and n[1] in LAYERS[:7]])
def test_what_runs_a_model_never_loads_the_compiler(name):
    # A type for the checker and a method that only the compiler calls may name TVM.
    if name[1] == "target":
        return
    heavy = {"tvm", "onnx", "xgboost", "torch"}
    assert not heavy & {imported[0] for imported in _imports(name, MODULES[name])}


@pytest.mark.parametrize("name", INNER)
def test_only_one_module_binds_the_library(name):
    if name[1] == "_ffi_api":
        return
    text = MODULES[name].read_text(encoding="utf-8")
    assert "init_ffi_api" not in text
    assert 'get_global_func("moonpoly.' not in text


@pytest.mark.parametrize("name", INNER)
def test_files_stay_small(name):
    assert len(MODULES[name].read_text(encoding="utf-8").splitlines()) <= 500
