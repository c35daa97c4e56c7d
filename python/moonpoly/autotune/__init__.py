"""The offline stage: from templates and search spaces to an artifact, once per target.

In the order of the data: ``candidates`` (what is tuned), ``generate`` (template and trace to code),
``measure`` and ``search`` (MetaSchedule), ``refine`` (the best again, as exported), ``sample`` and
``cost_model`` (task costs), ``rank`` (which to keep), ``tune`` (all of it), ``export`` (records to
artifact), ``calibrate`` (the costs of this machine). Only reading an artifact is here: a process
that finds its artifact built needs neither TVM nor XGBoost, which the others import.
"""

from __future__ import annotations

from moonpoly.autotune.artifact import Artifact, read_artifact
from moonpoly.autotune.artifact_cache import load_artifact

__all__ = ["Artifact", "load_artifact", "read_artifact"]
