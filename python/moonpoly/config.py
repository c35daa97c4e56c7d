"""Every environment variable, the cache folder, and writing that leaves nothing half-written."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import platformdirs

from moonpoly.error import MoonPolyError, StorageError

ENV_CACHE_DIR = "MOONPOLY_CACHE_DIR"
ENV_CUDA_DRIVER = "MOONPOLY_CUDA_DRIVER"  # read in C++: another driver than libcuda.so.1
ENV_DUMP_IR = "MOONPOLY_DUMP_IR"
ENV_EXPORT_PYTHON = "MOONPOLY_EXPORT_PYTHON"
ENV_NUM_THREADS = "MOONPOLY_NUM_THREADS"
ENV_RUNTIME_LIBRARY = "MOONPOLY_RUNTIME_LIBRARY"
ENV_TVM_NUM_THREADS = "TVM_NUM_THREADS"


def package_version() -> str:
    """Return the version of the installed package, such as ``"0.1.0"``."""
    try:
        return version("moonpoly")
    except PackageNotFoundError as err:
        raise MoonPolyError(
            "moonpoly is imported from a source tree that is not installed; "
            "run `pip install -e .` in it"
        ) from err


def num_threads() -> int:
    """Return the number of threads to plan for and to launch on.

    ``MOONPOLY_NUM_THREADS``, else ``TVM_NUM_THREADS``, else the cores this process may use.

    Raises
    ------
    MoonPolyError
        If the variable is not a positive integer.
    """
    for name in (ENV_NUM_THREADS, ENV_TVM_NUM_THREADS):
        text = os.environ.get(name, "").strip()
        if not text:
            continue
        if not text.isdecimal() or int(text) < 1:
            raise MoonPolyError(f"{name} must be a positive integer, got {text!r}")
        return int(text)
    return len(os.sched_getaffinity(0))


def cache_dir() -> Path:
    """Return the cache folder of this version; it need not exist yet.

    ``MOONPOLY_CACHE_DIR`` replaces the user's cache folder; the version is appended in both cases,
    so that two versions never read each other's files.
    """
    root = os.environ.get(ENV_CACHE_DIR, "").strip()
    base = Path(root) if root else platformdirs.user_cache_path("moonpoly", appauthor=False)
    return base / package_version()


def dump_ir_dir() -> Path | None:
    """Return the folder that the compiler writes the module to after each phase, or None."""
    text = os.environ.get(ENV_DUMP_IR, "").strip()
    return Path(text) if text else None


def export_python() -> str | None:
    """Return the interpreter that exports models from torch, or None for this one."""
    return os.environ.get(ENV_EXPORT_PYTHON, "").strip() or None


def runtime_library() -> Path:
    """Return the path of the C++ library: ``MOONPOLY_RUNTIME_LIBRARY``, else the installed one.

    Raises
    ------
    MoonPolyError
        If there is none: the package was not built.
    """
    if text := os.environ.get(ENV_RUNTIME_LIBRARY, "").strip():
        return Path(text)
    spec = importlib.util.find_spec("moonpoly")
    # An editable install keeps the library in site-packages and the modules in the source tree:
    # the package has several folders.
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "lib" / "libmoonpoly_runtime.so"
        if path.is_file():
            return path
    raise MoonPolyError("libmoonpoly_runtime.so is not installed; run `pip install -e .`")


def cpu_name() -> str:
    """Return the processor's name, as the operating system tells it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def check_writable(path: Path | str) -> None:
    """Check that ``path`` can be written, before time is spent on what goes there.

    Raises
    ------
    StorageError
        If its folder is missing or read-only, or ``path`` is a folder or a device.
    """
    path = _regular(Path(path))
    try:
        with tempfile.NamedTemporaryFile(prefix=f".{path.stem}.", dir=path.parent):
            pass
    except OSError as err:
        raise _storage_error(path, err) from err


@contextlib.contextmanager
def atomic_file(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it replaces ``path``, else it is removed.

    For writers that need a file name, such as a linker. The content is flushed to disk before the
    rename.

    Raises
    ------
    StorageError
        If the folder is missing, read-only or full.
    """
    path = _regular(Path(path))
    temp: Path | None = None
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent
        )
        os.close(handle)
        temp = Path(name)
        yield temp
        _sync(temp)
        temp.chmod(0o666 & ~_umask())
        temp.replace(path)
    except OSError as err:
        raise _storage_error(path, err) from err
    finally:
        if temp is not None:
            temp.unlink(missing_ok=True)


def atomic_write(path: Path | str, data: bytes) -> None:
    """Write ``data`` to ``path`` so that a reader sees the old file or the new one, never a part.

    Raises
    ------
    StorageError
        If the folder is missing, read-only or full; ``path`` is then as before.
    """
    with atomic_file(path) as temp:
        temp.write_bytes(data)


@contextlib.contextmanager
def atomic_dir(path: Path | str) -> Iterator[Path]:
    """Yield a temporary folder; on success it takes the place of ``path``, else it is removed.

    Missing parents are created. Where another process has put ``path`` in place meanwhile, the
    newer content wins.

    Raises
    ------
    StorageError
        If the parent folder can't be created or written.
    """
    path = Path(path)
    temp: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temp = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        yield temp
        for file in temp.rglob("*"):
            if file.is_file():
                _sync(file)
        temp.chmod(0o777 & ~_umask())
        _replace_dir(temp, path)
    except OSError as err:
        raise _storage_error(path, err) from err
    finally:
        if temp is not None:
            shutil.rmtree(temp, ignore_errors=True)


def temporary_folder() -> Path:
    """Make a folder for files that a process needs while it runs; the caller removes it.

    Raises
    ------
    StorageError
        If there is no folder for temporary files that can be written.
    """
    try:
        return Path(tempfile.mkdtemp(prefix="moonpoly-"))
    except OSError as err:
        raise _storage_error(Path(tempfile.gettempdir()), err) from err


def require_space(folder: Path | str, num_bytes: int) -> None:
    """Check that ``num_bytes`` fit in ``folder`` before something writes that can't report it.

    LLVM ends the process when a disk is full, and a linker only says that it failed.

    Raises
    ------
    StorageError
        If less is free.
    """
    try:
        free = shutil.disk_usage(folder).free
    except OSError as err:
        raise _storage_error(Path(folder), err) from err
    if free < num_bytes:
        raise StorageError(
            f"can't write to {folder}: No space left on device ({num_bytes / 1e6:.0f} MB needed, "
            f"{free / 1e6:.0f} MB free); free space, or choose another place (temporary files: "
            f"TMPDIR, the cache: {ENV_CACHE_DIR})"
        )


def _regular(path: Path) -> Path:
    """Return the file that ``path`` names, through links; refuse a folder or a device."""
    path = path.resolve()
    if path.is_dir():
        raise StorageError(f"can't write {path}: it is a folder; give a file name")
    if path.exists() and not path.is_file():
        # A rename would put a plain file in the place of the device.
        raise StorageError(f"can't write {path}: it is not a regular file; give a file name")
    return path


def _replace_dir(temp: Path, path: Path) -> None:
    if path.exists():
        # A folder can't be renamed over a full one: the old one is moved aside first.
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        path.rename(aside / "old")
        temp.rename(path)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        temp.rename(path)


def _sync(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _storage_error(path: Path, err: OSError) -> StorageError:
    reason = err.strerror or str(err)
    return StorageError(
        f"can't write {path}: {reason}; free space, mend its rights, or choose another place "
        f"(the cache: {ENV_CACHE_DIR})"
    )
