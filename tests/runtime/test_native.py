"""The runtime under AddressSanitizer: CMake builds a test program, CTest runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_no_access_outside_the_operands(tmp_path):
    # The environment's own CMake first: the system's may be older than the build needs.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    tools = {name: shutil.which(name, path=path) for name in ("cmake", "ctest")}
    if None in tools.values() or not (ROOT / "CMakeLists.txt").is_file():
        pytest.skip("needs CMake and the source tree")
    configure = [
        str(tools["cmake"]),
        f"-S{ROOT}",
        f"-B{tmp_path}",
        "-DMOONPOLY_TESTS=ON",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    build = [
        str(tools["cmake"]),
        "--build",
        str(tmp_path),
        "--target",
        "moonpoly_memory_test",
        "-j2",
    ]
    test = [str(tools["ctest"]), "--test-dir", str(tmp_path), "--output-on-failure"]
    for command in (configure, build, test):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
