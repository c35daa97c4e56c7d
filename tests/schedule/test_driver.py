"""Every function gets a rule, the fall-back is counted, vectors are as wide as the registers."""

from __future__ import annotations

import re

import tvm
from schedule.conftest import compile_graph, symbols
from tvm import relax, te

import moonpoly.compiler.codegen as codegen
from moonpoly.compiler.schedule import FALLBACK, RULE, ScheduleCPU, schedule_cpu


def _legalised(graph, shapes):
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{number}", relax.TensorType(list(shape), "float32"))
        for number, shape in enumerate(shapes)
    ]
    with builder.function("main", inputs):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(graph(*inputs)))
        builder.emit_func_output(result)
    mod = relax.transform.LegalizeOps()(builder.get())
    return relax.transform.FuseTIR()(mod)


def _prim_funcs(mod):
    return [f for _, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]


def test_every_function_names_its_rule(host):
    n, m = symbols("nm")
    mod = _legalised(
        lambda x: relax.op.nn.softmax(relax.op.add(x, relax.const(1.0, "float32"))), [(n, m)]
    )
    mod = schedule_cpu(mod, host.tvm_target())
    rules = [str(func.attrs[RULE]) for func in _prim_funcs(mod)]
    assert rules and FALLBACK not in rules


def test_what_is_scheduled_stays_as_it_is(host):
    n, m = symbols("nm")
    mod = schedule_cpu(_legalised(relax.op.exp, [(n, m)]), host.tvm_target())
    again = ScheduleCPU(host.tvm_target())
    tvm.ir.assert_structural_equal(again(mod), mod)
    assert not again.report.rules


def test_fallback_is_counted_with_its_reason(host):
    n, m = symbols("nm")
    mod = _legalised(lambda x: relax.op.argmax(x, axis=-1), [(n, m)])
    schedule = ScheduleCPU(host.tvm_target())
    schedule(mod)
    assert schedule.report.counts()[FALLBACK] == len(schedule.report.reasons) == 1


def test_avx512_code_uses_whole_registers(target):
    n = te.var("n", "int64")
    x = te.placeholder((n,), "float32")
    y = te.compute((n,), lambda i: x[i] * x[i])
    func = te.create_prim_func([x, y]).with_attr({"global_symbol": "f", "tirx.noalias": True})
    mod = schedule_cpu(tvm.IRModule({"f": func}), target.tvm_target())
    built = tvm.tirx.build(mod, target=target.tvm_target(), pipeline=codegen.PIPELINE)
    register = "zmm" if target.vector_lanes["float32"] == 16 else "ymm"
    assert re.search(rf"vmulps\t.*%{register}", built.inspect_source("asm"))


def test_one_thread_of_many_shapes_from_one_function(host, rng):
    n, m = symbols("nm")
    run = compile_graph(host, [((n, m), "float32")], lambda x: relax.op.nn.softmax(x, axis=-1))
    for _ in range(20):
        shape = tuple(rng.integers(1, 200, 2))
        assert run(rng.standard_normal(shape).astype("float32")).sum(-1).round(4).min() == 1
