"""No kernel takes an array from TVM's workspace: its accumulators are variables of their own."""

from __future__ import annotations

import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from moonpoly.autotune.export import candidates_of, rebuild
from moonpoly.autotune.generate import build_kernels
from moonpoly.autotune.records import load_records
from moonpoly.autotune.registers import arrays_to_registers
from moonpoly.autotune.sources import installed_sources
from moonpoly.target import Target
from moonpoly.workload import Workload


def _local_arrays(func):
    found = []
    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, lambda a: found.append(a.buffer)))
    return [array for array in found if array.scope() == "local"]


@pytest.mark.parametrize("name", ["x86-avx512", "x86-avx2"])
def test_kernels_of_both_families_call_nothing_for_memory(name, tmp_path):
    target = Target.parse(name)
    records = load_records(installed_sources(target, Workload()).records)
    candidates = candidates_of(records, target, Workload())
    chosen = {}
    for family in ("outer", "dot"):
        pairs = (p for p in zip(candidates, records, strict=True) if p[1].family == family)
        candidate, record = max(pairs, key=lambda p: p[1].um * p[1].un)
        chosen[record.kernel] = rebuild(candidate, record)
    path = tmp_path / "kernels.o"
    build_kernels(chosen, target).mod.write_to_file(str(path), "o")
    symbols = path.read_bytes()
    assert b"_compute_" in symbols
    assert b"memset" not in symbols
    assert b"Workspace" not in symbols


def test_vectors_and_parts_of_them_share_a_variable():
    @T.prim_func
    def func(x: T.Buffer((32,), "float32"), y: T.Buffer((4,), "float32")):
        acc = T.alloc_buffer((32,), "float32", scope="local")
        acc[T.ramp(0, 1, 16)] = x[T.ramp(0, 1, 16)]
        acc[T.ramp(16, 1, 16)] = x[T.ramp(16, 1, 16)]
        y[T.ramp(0, 1, 4)] = acc[T.ramp(4, 1, 4)] + acc[T.ramp(20, 1, 4)]

    mod = arrays_to_registers(tvm.IRModule({"main": func}))
    assert not _local_arrays(mod["main"])
    script = mod.script().replace("T.int64(4)", "4").replace("T.int64(1)", "1")
    assert "acc_0[T.Ramp(4, 1, 4)] + acc_16[T.Ramp(4, 1, 4)]" in script


def test_an_array_with_a_variable_place_stays():
    @T.prim_func
    def func(x: T.Buffer((32,), "float32"), y: T.Buffer((32,), "float32")):
        acc = T.alloc_buffer((32,), "float32", scope="local")
        for i in range(32):
            acc[i] = x[i]
        y[0] = acc[3]

    mod = arrays_to_registers(tvm.IRModule({"main": func}))
    assert len(_local_arrays(mod["main"])) == 1
