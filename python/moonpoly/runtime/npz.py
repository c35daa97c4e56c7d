"""Tensors by name in NumPy's archive format."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from moonpoly import config
from moonpoly.error import InputError, StorageError


def read_npz(path: Path | str) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file.

    Raises
    ------
    StorageError
        If the file can't be read.
    InputError
        If it is not such a file, is damaged, or holds Python objects.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise InputError(f"{path} holds one unnamed array; save it with numpy.savez(name=…)")
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except OSError as err:
        raise StorageError(f"can't read {path}: {err.strerror or err}; check the path") from err
    except (ValueError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile) as err:
        raise InputError(f"{path} is not a whole .npz file: {err}; use numpy.savez") from err


def write_npz(path: Path | str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write ``arrays`` to an ``.npz`` file; under any name, which ``numpy.savez`` does not take.

    Raises
    ------
    StorageError
        If it can't be written; nothing half-written is left.
    """
    with config.atomic_file(path) as temp, zipfile.ZipFile(temp, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
