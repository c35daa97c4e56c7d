"""``moonpoly info``."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from moonpoly import config
from moonpoly.cli.screen import console, facts
from moonpoly.error import TargetError
from moonpoly.target import host_features, host_target

_PACKAGES = (
    "apache-tvm",
    "apache-tvm-ffi",
    "numpy",
    "onnx",
    "onnxruntime",
    "xgboost-cpu",
    "xgboost",
    "torch",
)


def info() -> None:
    """Print versions, what this machine can run, and where artifacts are kept."""
    try:
        target = host_target().name
    except TargetError as err:
        target = f"none: {err}"
    rows = [
        ("moonpoly", config.package_version()),
        ("Python", platform.python_version()),
        *((name, found) for name in _PACKAGES if (found := _version(name))),
        ("machine", f"{platform.machine()}, {config.cpu_name()}"),
        ("features", " ".join(sorted(host_features())) or "none of those that targets need"),
        ("target", target),
        ("threads", config.num_threads()),
        ("runtime library", config.runtime_library()),
        ("cache", config.cache_dir()),
        *_artifacts(),
    ]
    console.print(facts(rows))


def _artifacts() -> list[tuple[str, str]]:
    cache = config.cache_dir()
    manifests = sorted(cache.glob("**/manifest.json")) if cache.is_dir() else []
    built = [str(path.parent.relative_to(cache)) for path in manifests]
    return [("built artifacts", ", ".join(built) or "none; the first compile builds one")]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
