"""Every loop program of the real models has a schedule of its own."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from moonpoly.compiler.frontend import import_model
from moonpoly.compiler.pipeline import lowering_phases, rewriting_phases, run_phases
from moonpoly.compiler.schedule import ScheduleCPU
from moonpoly.compiler.sites import SiteTable
from moonpoly.model_registry import TIMED, ModelFileError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("model", TIMED, ids=lambda model: model.name)
def test_no_function_is_left_to_the_fallback(model, host):
    try:
        path = model.path()
    except ModelFileError as err:
        pytest.skip(str(err))
    target = host.tvm_target()
    table = SiteTable(digest="0" * 64, lanes=host.vector_lanes["float32"])
    before = [phase for phase in lowering_phases(target, table) if phase.name < "6_schedule"]
    with target:
        mod = run_phases(import_model(path).module, rewriting_phases(table) + before)
    schedule = ScheduleCPU(target)
    mod = tvm.ir.transform.Sequential([schedule])(mod)
    assert schedule.report.reasons == {}
    functions = [func for _, func in mod.functions_items() if not isinstance(func, relax.Function)]
    assert len(functions) >= len(schedule.report.rules) > 0
