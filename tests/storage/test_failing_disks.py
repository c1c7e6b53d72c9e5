"""Operations of a log, and of the files of a log directory, on a disk that fails: each names its directory."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.storage.directory import LogDirectory
from odradek.storage.files import meta_properties, open_files
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.files.modes import restrict
from odradek.storage.files.open_files import OpenFile
from odradek.storage.files.page_cache import pread_nowait
from odradek.storage.files.regular_files import open_regular_file
from odradek.storage.files.room import LEAST_ROOM_BYTES, LEAST_ROOM_FILES, check_room
from odradek.storage.files.segment_files import base_offset_of
from odradek.storage.files.writes import naming, set_aside, write_fully
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log

from tests.storage.conftest import NOW_MS, Logbook

BATCH_OFFSET = 9


@pytest.fixture
def failing(logbook: Logbook) -> Log:
    """Returns a log of three segments, and nothing in the active one. A file has the place of its directory."""
    log = logbook.open(LogConfig(remote_storage=True, file_delete_delay_ms=0))
    for epoch in range(3):
        logbook.append(log, b"a", b"b", b"c", leader_epoch=epoch)
        log.roll(NOW_MS)
    log.flush(NOW_MS)
    for segment in log.segments:
        segment.close()
    shutil.rmtree(logbook.path)
    logbook.path.write_bytes(b"")
    return log


def remove_and_delete(log: Log) -> None:
    log.remove_first(1, NOW_MS, defer=True)
    log.delete_scheduled(NOW_MS)


OPERATIONS: dict[str, tuple[str, Callable[[Log], object]]] = {
    "append": ("appending", lambda log: log.append(Logbook(Path()).batch(BATCH_OFFSET, [b"x"]), None, NOW_MS)),
    "read": ("reading", lambda log: log.read(0, 100)),
    "search": ("reading", lambda log: log.offset_for_timestamp(NOW_MS)),
    "newest": ("reading", lambda log: log.offset_of_max_timestamp()),
    "truncate": ("truncating", lambda log: log.truncate_to(4, NOW_MS)),
    "empty": ("truncating", lambda log: log.truncate_fully_and_start_at(40, NOW_MS)),
    "remote": ("truncating", lambda log: log.begin_after_remote(40, NOW_MS, 0, [], [])),
    "producers": ("reading", lambda log: log.producers_at_local_start()),
    "epochs": ("writing the leader epochs of", lambda log: log.restore_epochs([(0, 0)])),
    "move": ("moving", lambda log: log.move_to(f"{log.path}/inside")),
    "remove": ("removing segments", lambda log: log.remove_first(2, NOW_MS)),
    "delete": ("deleting segments", remove_and_delete),
    "insert": ("inserting a segment", lambda log: log.insert(1, 3, NOW_MS)),
    "replace": ("swapping segments", lambda log: log.replace(0, log.segments[:2], NOW_MS)),
    "aborted": (
        "writing an index of",
        lambda log: log.correct_aborted(log.segments[0], [], 3, is_wrong=True),
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_on_a_failing_disk_names_the_log_directory(failing: Log, logbook: Logbook, name: str) -> None:
    doing, operation = OPERATIONS[name]
    with pytest.raises(LogDirectoryFailure) as raised:
        operation(failing)
    assert raised.value.directory == str(logbook.path.parent)
    assert f"{doing} {logbook.path}" in str(raised.value) and raised.value.cause.errno == errno.ENOTDIR
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.directory, type(again.cause)) == (
        str(raised.value),
        raised.value.directory,
        NotADirectoryError,
    )
    assert not raised.value.is_full and not raised.value.is_shortage


def test_opening_on_a_failing_disk_names_the_log_directory(logbook: Logbook) -> None:
    logbook.path.parent.mkdir(parents=True)
    logbook.path.write_bytes(b"")
    with pytest.raises(LogDirectoryFailure, match="opening"):
        logbook.open()


def test_log_whose_directory_is_gone_is_not_noted(failing: Log) -> None:
    assert failing.to_note() is None


@pytest.mark.parametrize(
    ("number", "is_full", "is_shortage", "advice"),
    [
        (errno.ENOSPC, True, False, "the disk is full"),
        (errno.EDQUOT, True, False, "quota"),
        (errno.EMFILE, False, True, ""),
        (errno.EIO, False, False, ""),
    ],
)
def test_failure_of_a_full_disk_differs_from_one_of_missing_descriptors(
    number: int, is_full: bool, is_shortage: bool, advice: str
) -> None:
    failure = LogDirectoryFailure("/d", "writing", OSError(number, "words"))
    assert (failure.is_full, failure.is_shortage) == (is_full, is_shortage)
    assert advice in str(failure) and (bool(advice) <= ("; " in str(failure)))


# ---- meta.properties


def test_formatting_and_reading_on_a_failing_disk_names_the_log_directory(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"")
    with pytest.raises(LogDirectoryFailure, match=r"reading .*meta\.properties"):
        meta_properties.read_meta_properties(str(place))
    with pytest.raises(LogDirectoryFailure, match=r"writing meta\.properties"):
        meta_properties.write_meta_properties(str(place), meta_properties.MetaProperties("c", 0, None))
    (tmp_path / "meta.properties").mkdir()
    with pytest.raises(meta_properties.InvalidMetaProperties, match=r"a directory; restore the file"):
        meta_properties.read_meta_properties(str(tmp_path))


# ---- single files


@pytest.mark.parametrize(
    ("blocks", "free", "files", "free_files", "is_short"),
    [
        (9, LEAST_ROOM_BYTES, 9, LEAST_ROOM_FILES, False),
        (9, LEAST_ROOM_BYTES - 1, 9, LEAST_ROOM_FILES, True),
        (9, LEAST_ROOM_BYTES, 9, LEAST_ROOM_FILES - 1, True),
        (0, 0, 0, 0, False),
        (0, 0, 9, LEAST_ROOM_FILES, False),
        (9, LEAST_ROOM_BYTES, 0, 0, False),
    ],
)
def test_new_partition_leaves_room_on_its_disk(
    monkeypatch: pytest.MonkeyPatch, blocks: int, free: int, files: int, free_files: int, is_short: bool
) -> None:
    """A file system that does not count blocks or files reports 0 of them."""
    space = SimpleNamespace(f_blocks=blocks, f_bavail=free, f_frsize=1, f_files=files, f_favail=free_files)
    monkeypatch.setattr(open_files.os, "statvfs", lambda path: space)
    if is_short:
        with pytest.raises(OSError, match="No space left") as raised:
            check_room("/d")
        assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "/d")
    else:
        check_room("/d")


@pytest.mark.parametrize(("filename", "expected"), [(None, "/wanted"), ("/known", "/known")])
def test_error_of_a_write_names_its_file(filename: str | None, expected: str) -> None:
    with pytest.raises(OSError) as raised, naming("/wanted"):
        raise OSError(errno.EIO, "words", filename)
    assert raised.value.filename == expected


def test_file_that_is_set_aside_gets_a_name_of_its_own(tmp_path: Path) -> None:
    names = []
    for content in ("a", "b", "c"):
        path = tmp_path / "t-0"
        path.write_text(content)
        names.append(Path(set_aside(str(path))).name)
    assert len(set(names)) == 3 and names[1:] == [f"{names[0]}.2", f"{names[0]}.3"]
    assert [(tmp_path / name).read_text() for name in names] == ["a", "b", "c"]


def test_write_that_takes_a_part_goes_on_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(open_files.os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:3], at))
    path = tmp_path / "f"
    path.write_bytes(b"--")
    fd = os.open(path, os.O_WRONLY)
    try:
        write_fully(fd, b"0123456789", 2)
    finally:
        os.close(fd)
    assert path.read_bytes() == b"--0123456789"


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        (f"{0:020}.log", 0),
        (f"{7:020}.log.swap", 7),
        (f"{7:020}", None),
        (f"{7:020}x", None),
        (f"{7:019}.log", None),
        (f"{'x' * 20}.log", None),
        (f"{'٣' * 20}.log", None),
    ],
)
def test_file_of_a_segment_begins_with_twenty_digits(name: str, offset: int | None) -> None:
    assert base_offset_of(name) == offset


def test_file_is_read_without_waiting_where_the_system_supports_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    fd = os.open(path, os.O_RDONLY)
    try:
        assert pread_nowait(fd, 4, 2) == b"2345" and pread_nowait(fd, 40, 8) == b"89" and pread_nowait(fd, 4, 10) == b""

        def part(fd: int, buffers: Any, position: int, flags: int) -> int:
            buffers[0][:2] = b"23"
            return 2

        monkeypatch.setattr(open_files.os, "preadv", part)
        with pytest.raises(BlockingIOError):
            pread_nowait(fd, 4, 2)

        def unable(*arguments: object) -> int:
            raise OSError(errno.EOPNOTSUPP, "words")

        monkeypatch.setattr(open_files.os, "preadv", unable)
        assert pread_nowait(fd, 4, 2) == b"2345"

        def broken(*arguments: object) -> int:
            raise OSError(errno.EIO, "words")

        monkeypatch.setattr(open_files.os, "preadv", broken)
        with pytest.raises(OSError, match="words"):
            pread_nowait(fd, 4, 2)
    finally:
        os.close(fd)


def test_only_a_regular_file_is_opened_for_a_user(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    with open_regular_file(tmp_path / "f") as file:
        assert file.read() == b"x"
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError, match="not a regular file") as raised:
            open_regular_file(tmp_path / name)
        assert raised.value.errno == errno.EINVAL


@pytest.mark.parametrize(
    ("mode", "after", "had"),
    [(0o644, 0o600, True), (0o600, 0o600, False), (0o1777, 0o1777, False), (0o750, 0o700, True), (0o601, 0o600, True)],
)
def test_rights_of_others_are_taken(tmp_path: Path, mode: int, after: int, had: bool) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    folder.chmod(mode)
    assert restrict(folder) == had and folder.stat().st_mode & 0o7777 == after
    assert not restrict(tmp_path / "none")
    (tmp_path / "link").symlink_to(folder)
    folder.chmod(0o755)
    assert not restrict(tmp_path / "link") and folder.stat().st_mode & 0o777 == 0o755


def test_file_that_cannot_be_opened_is_not_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", failures.append)
    count = OpenFile.count
    with pytest.raises(FileNotFoundError):
        OpenFile(str(tmp_path / "none"))
    gc.collect()
    assert failures == [] and OpenFile.count == count
    (tmp_path / "f").write_bytes(b"")
    file = OpenFile(str(tmp_path / "f"))
    assert OpenFile.count == count + 1
    del file
    assert OpenFile.count == count and failures == []


def test_start_takes_the_rights_of_others_from_files_and_unused_folders(tmp_path: Path) -> None:
    """A log does so for its own folder when it is opened."""
    path = tmp_path / "d"
    path.mkdir(0o755)
    meta_properties.write_meta_properties(str(path), meta_properties.MetaProperties("c", 0, None))
    for name in ("t-0", "t-1.0123-delete"):
        (path / name).mkdir(0o755)
        (path / name / "file").write_bytes(b"")
        (path / name / "file").chmod(0o644)
    (path / "meta.properties").chmod(0o644)
    LogDirectory.open(path).close()

    def mode(name: str) -> int:
        return (path / name).stat().st_mode & 0o777

    assert path.stat().st_mode & 0o777 == 0o700 and mode("meta.properties") == 0o600
    assert (mode("t-1.0123-delete"), mode("t-1.0123-delete/file")) == (0o700, 0o600)
    assert (mode("t-0"), mode("t-0/file")) == (0o755, 0o644)
