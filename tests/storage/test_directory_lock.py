"""The process that holds a directory's lock, as another process finds it."""

from __future__ import annotations

import fcntl
import struct
from pathlib import Path
from typing import Any

import pytest
from odradek.storage.files import directory_lock
from odradek.storage.files import lock_holder as lock_holder_file
from odradek.storage.files.lock_holder import lock_holder


@pytest.mark.parametrize(
    ("kind", "pid", "holder"),
    [
        (fcntl.F_WRLCK, 700, 700),
        (fcntl.F_RDLCK, 1, 1),
        (fcntl.F_WRLCK, 0, None),
        (fcntl.F_WRLCK, -1, None),
        (fcntl.F_UNLCK, 700, None),
    ],
)
def test_holder_is_the_process_that_the_system_names(
    kind: int, pid: int, holder: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 1 may be a broker in a container; a process of another container has the number 0."""
    asked: list[tuple[int, tuple[Any, ...]]] = []

    def respond(fd: int, command: int, question: bytes) -> bytes:
        asked.append((command, struct.unpack(lock_holder_file._LAYOUT, question)))
        return struct.pack(lock_holder_file._LAYOUT, kind, 0, 0, 0, pid)

    monkeypatch.setattr(lock_holder_file, "_IS_BSD", False)
    monkeypatch.setattr(directory_lock.fcntl, "fcntl", respond)
    (tmp_path / ".lock").touch()
    assert lock_holder(tmp_path / ".lock") == holder
    assert [(command, fields[0]) for command, fields in asked] == [(fcntl.F_GETLK, fcntl.F_WRLCK)]


def test_file_that_is_missing_or_not_locked_has_no_holder(tmp_path: Path) -> None:
    assert lock_holder(tmp_path / ".lock") is None
    (tmp_path / ".lock").touch()
    assert lock_holder(tmp_path / ".lock") is None
    assert lock_holder(tmp_path) is None
