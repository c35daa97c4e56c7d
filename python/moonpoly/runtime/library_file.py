"""Checks of a shared library's file before the loader maps it.

The loader maps a truncated library without complaint and the process dies on the first missing
page, so the lengths that the file itself states are compared with its size first.
"""

from __future__ import annotations

import struct
from pathlib import Path

from moonpoly.error import ArtifactError, StorageError

_MAGIC = b"\x7fELF"
_CLASS_64, _LITTLE_ENDIAN = 2, 1
_TYPE_SHARED = 3
_MACHINES = {62: "x86-64", 183: "aarch64"}
# Offsets of the System V ABI's 64-bit header.
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")


def check_library_file(path: Path, *, machine: str = "x86-64") -> None:
    """Check that ``path`` is a whole shared library for ``machine``.

    Raises
    ------
    StorageError
        If the file is missing or can't be read.
    ArtifactError
        If it is something else, for another machine, or shorter than it says.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(_HEADER.size)
    except OSError as err:
        raise StorageError(f"can't read {path}: {err.strerror}; check the path") from err
    if len(head) < _HEADER.size or not head.startswith(_MAGIC):
        raise ArtifactError(f"{path} is not a compiled model; make one with `moonpoly compile`")
    ident, kind, arch, _, _, _, section_offset, _, _, _, _, section_size, num_sections, _ = (
        _HEADER.unpack(head)
    )
    if (ident[4], ident[5], kind) != (_CLASS_64, _LITTLE_ENDIAN, _TYPE_SHARED):
        raise ArtifactError(f"{path} is not a 64-bit shared library; compile the model again")
    if _MACHINES.get(arch) != machine:
        raise ArtifactError(
            f"{path} is built for {_MACHINES.get(arch, f'machine {arch}')}, expected {machine}; "
            f"compile the model on this kind of machine"
        )
    # The section table closes the file, so its end is the size that the linker wrote.
    expected = section_offset + section_size * num_sections
    if size < expected:
        raise ArtifactError(
            f"{path} is truncated: expected {expected} bytes, got {size}; copy it or compile again"
        )
