"""The offline stage: from templates and search spaces to an artifact, once per target.

In the order of the data: ``candidates`` (what is tuned), ``generate`` (template and trace to code),
``measure`` and ``search`` (MetaSchedule), ``refine`` (the best again, as exported), ``sample`` and
``cost_model`` (task costs), ``rank`` (which to keep), ``tune`` (all of it), ``export`` (records to
artifact), ``calibrate`` (the costs of this machine).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from moonpoly.autotune.artifact import Artifact, read_artifact
from moonpoly.autotune.artifact_cache import load_artifact

if TYPE_CHECKING:
    from moonpoly.autotune.calibrate import calibrate
    from moonpoly.autotune.export import export
    from moonpoly.autotune.tune import tune

__all__ = ["Artifact", "calibrate", "export", "load_artifact", "read_artifact", "tune"]

# Loaded on first use: a process that finds its artifact built needs neither TVM nor XGBoost.
_LAZY = ("calibrate", "export", "tune")


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'moonpoly.autotune' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"moonpoly.autotune.{name}"), name)
    globals()[name] = value
    return value
