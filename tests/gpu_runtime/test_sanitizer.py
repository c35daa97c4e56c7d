"""compute-sanitizer finds nothing in any micro-kernel: ``pytest -m gpu tests/gpu_runtime``.

Memory that is read or written out of bounds, and shared memory that two threads race for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="needs compute-sanitizer"),
]
CHILD = Path(__file__).with_name("every_kernel.py")
FOUND = 9


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_no_kernel_reads_writes_or_races_where_it_should_not(tool):
    paths = [str(CHILD.parents[1]), os.environ.get("PYTHONPATH", "")]
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND)]
    child = subprocess.run(
        [*command, sys.executable, str(CHILD)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout[-4000:] + child.stderr[-2000:]
    assert "launches" in child.stdout
