"""Writing leaves the old state or the new one, and environment variables are checked."""

from __future__ import annotations

import errno
import os

import pytest

from moonpoly import config
from moonpoly.error import MoonPolyError, StorageError


def test_atomic_write_replaces_the_file(tmp_path):
    path = tmp_path / "f"
    config.atomic_write(path, b"old")
    config.atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["f"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(StorageError, match="No space left"), config.atomic_file(path) as temp:
        temp.write_bytes(b"part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_a_storage_error(tmp_path):
    with (
        pytest.raises(StorageError, match="No space left"),
        config.atomic_file(tmp_path / "f"),
        open("/dev/full", "wb", buffering=0) as full,
    ):
        full.write(b"x")
    assert os.listdir(tmp_path) == []


def test_a_device_is_never_replaced():
    for check in (config.check_writable, lambda path: config.atomic_write(path, b"x")):
        with pytest.raises(StorageError, match="not a regular file"):
            check("/dev/null")
    assert not os.path.isfile("/dev/null")


def test_a_link_keeps_pointing_at_the_new_file(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    config.atomic_write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_too_little_space_is_found_out_before_writing(tmp_path):
    config.require_space(tmp_path, 1)
    with pytest.raises(StorageError, match="No space left on device"):
        config.require_space(tmp_path, 1 << 62)


def test_atomic_dir_replaces_the_folder(tmp_path):
    path = tmp_path / "a" / "b"
    for text in ("old", "new"):
        with config.atomic_dir(path) as temp:
            (temp / "f").write_text(text)
    assert (path / "f").read_text() == "new"
    assert os.listdir(path.parent) == ["b"]


def test_a_failed_folder_leaves_the_old_one(tmp_path):
    path = tmp_path / "b"
    with config.atomic_dir(path) as temp:
        (temp / "f").write_text("old")
    with pytest.raises(KeyError), config.atomic_dir(path) as temp:
        (temp / "f").write_text("new")
        raise KeyError
    assert (path / "f").read_text() == "old"
    assert os.listdir(tmp_path) == ["b"]


def test_a_cache_below_a_file_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StorageError, match="MOONPOLY_CACHE_DIR"),
        config.atomic_dir(tmp_path / "file" / "artifact"),
    ):
        pass


def test_the_cache_is_versioned(empty_cache):
    assert config.cache_dir() == empty_cache / config.package_version()


def test_threads_follow_the_variables_in_order(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "3")
    monkeypatch.delenv("MOONPOLY_NUM_THREADS", raising=False)
    assert config.num_threads() == 3
    monkeypatch.setenv("MOONPOLY_NUM_THREADS", "5")
    assert config.num_threads() == 5


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_wrong_number_of_threads_is_refused(monkeypatch, text):
    monkeypatch.setenv("MOONPOLY_NUM_THREADS", text)
    with pytest.raises(MoonPolyError, match="MOONPOLY_NUM_THREADS must be a positive integer"):
        config.num_threads()
