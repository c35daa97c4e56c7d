"""The machine code of an image, where a disassembler is installed."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

_FUNCTION = re.compile(r"^\.text\.(?P<symbol>\w+):", re.MULTILINE)


def disassemble(image: bytes, folder: Path) -> dict[str, str]:
    """Return the instructions of each function of an image, by its symbol."""
    path = folder / "image.cubin"
    path.write_bytes(image)
    command = [_disassembler(), "--print-code", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    parts = _FUNCTION.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _disassembler() -> str:
    places = [shutil.which("nvdisasm"), "/usr/local/cuda/bin/nvdisasm"]
    if spec := importlib.util.find_spec("nvidia"):
        for folder in spec.submodule_search_locations or ():
            places += map(str, Path(folder).glob("*/bin/nvdisasm"))
    for place in places:
        if place is not None and Path(place).exists():
            return place
    pytest.skip("needs nvdisasm: pip install nvidia-cuda-nvdisasm")
