"""compute-sanitizer finds nothing in any micro-kernel: ``pytest -m gpu tests/gpu_runtime``.

Memory that is read or written out of bounds, shared memory that two threads race for, barriers that
not all wait for. A process runs the kernels of one image, several at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moonpoly import autotune
from moonpoly.target import Target
from moonpoly.workload import Workload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="needs compute-sanitizer"),
]
CHILD = Path(__file__).with_name("every_kernel.py")
# racecheck does not end on kernels whose clusters share loads by multicast (docs/gpu_results.md
# says what was tried); the other tools watch them.
OPTIONS = {"memcheck": [], "racecheck": ["--no-multicast"], "synccheck": []}
FOUND = 9
LIMIT_S = 300
# Each process listens on ports of its own.
FIRST_PORT, PORTS = 49152, 16


def run(tool: str, folder: Path, image: str, port: int) -> str:
    """Return what was said of the kernels of an image, or nothing where all was well."""
    paths = [str(CHILD.parents[1]), os.environ.get("PYTHONPATH", "")]
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND)]
    command += ["--port", str(port), "--target-processes", "application-only"]
    # Starting takes long where many start at once.
    command += ["--launch-timeout", str(LIMIT_S)]
    child = subprocess.Popen(
        [*command, sys.executable, str(CHILD), str(folder), image, *OPTIONS[tool]],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = child.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        # The watched process too, which would keep the GPU.
        os.killpg(child.pid, signal.SIGKILL)
        said, _ = child.communicate()
        return f"{image}: not done after {LIMIT_S} s\n{said[-2000:]}"
    if child.returncode == 0 and "\ndone\n" in said:
        return ""
    return f"{image}: exit {child.returncode}\n{said[-4000:]}"


@pytest.mark.parametrize("tool", OPTIONS)
@pytest.mark.parametrize("dtype", ["float16", "int8", "tf32", "float8_e4m3fn"])
def test_no_kernel_reads_writes_or_races_where_it_should_not(tool, dtype):
    artifact = autotune.load_artifact(Target.parse("cuda-sm90a"), Workload("gemm", dtype))
    images = sorted({kernel["cubin"] for kernel in artifact.manifest["kernels"]})
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        reports = pool.map(
            lambda i: run(tool, artifact.path, images[i], FIRST_PORT + PORTS * i),
            range(len(images)),
        )
    found = list(filter(None, reports))
    assert not found, "\n".join(found)
