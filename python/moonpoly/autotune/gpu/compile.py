"""Tile programs to machine code: TVM generates CUDA, nvcc compiles it. No GPU is needed.

TVM's own build would load the code into a driver, and without one keeps the source instead of the
code. Here the source is taken from TVM and compiled as it is, so what comes out is always code.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import tirx
from tvm.tirx.build import split_host_device_mods

from moonpoly.autotune.gpu.program import Program, TileConfig
from moonpoly.error import TargetError, TuneError
from moonpoly.tir_templates.direct.config import DirectConfig
from moonpoly.tir_templates.direct.kernel import gemm_direct
from moonpoly.tir_templates.gemv.config import GemvConfig
from moonpoly.tir_templates.gemv.kernel import gemv
from moonpoly.tir_templates.mma.config import MmaConfig
from moonpoly.tir_templates.mma.kernel import gemm_mma
from moonpoly.tir_templates.wgmma.kernel import gemm_wgmma

_FLAGS = ("-O3", "-std=c++17", "--use_fast_math", "-Xptxas", "-v", "-w")
_ENTRY = re.compile(r"Compiling entry function '(?P<symbol>\w+)'")
_SPILLS = re.compile(r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (?P<count>\d+) registers")
_POINTER = "_ptr"
_USUAL_PLACE = "/usr/local/cuda/bin/nvcc"


@dataclass(frozen=True)
class Kernel:
    """A compiled tile program.

    Parameters
    ----------
    program
        What it was made of.
    symbol
        Its name in the image.
    parameters
        The names of its parameters, in order.
    registers
        Registers of a thread.
    spilled_bytes
        What of them had to go to memory; 0 in any kernel worth keeping.
    """

    program: Program
    symbol: str
    parameters: tuple[str, ...]
    registers: int
    spilled_bytes: int


def compile_programs(
    programs: Sequence[Program], target: tvm.target.Target
) -> tuple[list[Kernel], bytes]:
    """Compile programs into one image of machine code (a cubin).

    Raises
    ------
    TuneError
        If one can't be generated or compiled.
    TargetError
        If there is no compiler.
    """
    device = lower(programs, target)
    image, report = _nvcc(cuda_source(device, target), str(target.attrs["arch"]))
    used = resources(report)
    kernels = []
    for program in programs:
        symbol = f"{program.name}_kernel"
        parameters = tuple(_plain_name(param.name) for param in device[symbol].params)
        registers, spilled = used[symbol]
        kernels.append(Kernel(program, symbol, parameters, registers, spilled))
    return kernels, image


def lower(programs: Sequence[Program], target: tvm.target.Target) -> tvm.IRModule:
    """Return the device functions of programs, one each, called by their symbols."""
    functions = {
        program.name: tile_program(program.config).with_attr("global_symbol", program.name)
        for program in programs
    }
    host = tvm.target.Target("llvm")
    with target:
        module = tirx.transform.BindTarget(target.with_host(host))(tvm.IRModule(functions))
        pipeline, _, finish_device = tirx.get_tir_pipeline("tirx")
        _, by_target = split_host_device_mods(pipeline(module))
        (device,) = by_target.values()
        return finish_device()(device)


def tile_program(config: TileConfig) -> tirx.PrimFunc:
    """Return the program of a configuration, of whichever kind it is."""
    if isinstance(config, MmaConfig):
        return gemm_mma(config)
    if isinstance(config, DirectConfig):
        return gemm_direct(config)
    return gemv(config) if isinstance(config, GemvConfig) else gemm_wgmma(config)


def cuda_source(device: tvm.IRModule, target: tvm.target.Target) -> str:
    """Return the CUDA C++ that TVM generates for device functions."""
    with target:
        return str(tvm.get_global_func("target.build.cuda")(device, target).inspect_source())


def resources(report: str) -> dict[str, tuple[int, int]]:
    """Return registers and spilled bytes by symbol, as the assembler reported them."""
    used: dict[str, tuple[int, int]] = {}
    symbol, spilled = "", 0
    for line in report.splitlines():
        if match := _ENTRY.search(line):
            symbol = match["symbol"]
        elif match := _SPILLS.search(line):
            spilled = int(match["stores"]) + int(match["loads"])
        elif match := _REGISTERS.search(line):
            used[symbol] = int(match["count"]), spilled
    return used


def compiler_path() -> str:
    """Return the path of nvcc.

    Raises
    ------
    TargetError
        If there is none.
    """
    for place in (shutil.which("nvcc"), _USUAL_PLACE):
        if place is not None and Path(place).exists():
            return place
    raise TargetError(
        "kernels for CUDA are compiled by nvcc, which is not on the PATH; install the CUDA toolkit "
        "(12.4 or newer) or put its bin folder on the PATH"
    )


def _nvcc(source: str, arch: str) -> tuple[bytes, str]:
    """Compile for exactly ``arch``; return the image and what the assembler said."""
    number = arch.removeprefix("sm_")
    with tempfile.TemporaryDirectory() as folder:
        code, image = Path(folder) / "kernels.cu", Path(folder) / "kernels.cubin"
        code.write_text(source, encoding="utf-8")
        command = [
            compiler_path(),
            *_FLAGS,
            "-gencode",
            f"arch=compute_{number},code=sm_{number}",
            "-cubin",
            "-o",
            str(image),
            str(code),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            first = next((x for x in done.stderr.splitlines() if "error" in x), done.stderr[:300])
            raise TuneError(f"nvcc could not compile a kernel: {first.strip()}")
        return image.read_bytes(), done.stderr + done.stdout


def _plain_name(name: str) -> str:
    """Return a parameter's name as the tile program has it, not the pointer's within it."""
    return name.removesuffix(_POINTER).lower() if name.endswith(_POINTER) else name
