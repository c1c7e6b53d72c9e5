"""Descriptors that are kept for a shortage: when one is given up, and which failures are no shortage."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.storage.files import descriptors
from odradek.storage.files.descriptors import SPARE_DESCRIPTORS, SpareDescriptors, open_fd, open_for_reading
from odradek.storage.files.failures import LogDirectoryFailure


class Shortage:
    """`os.open` fails so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, error: int = errno.EMFILE) -> None:
        self.left = times
        self.error = error
        self._open = os.open
        monkeypatch.setattr(os, "open", self)

    def __call__(self, *arguments: Any, **options: Any) -> int:
        if self.left:
            self.left -= 1
            raise OSError(self.error, os.strerror(self.error))
        return self._open(*arguments, **options)


@pytest.fixture
def spares(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpareDescriptors]:
    made = SpareDescriptors()
    monkeypatch.setattr(descriptors, "SPARES", made)
    yield made
    made.close()


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return str(path)


def opened(file: str) -> bytes:
    fd = open_fd(file, os.O_RDONLY)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def test_spares_are_filled_given_up_and_filled_again(spares: SpareDescriptors) -> None:
    spares.fill()
    spares.fill()
    assert len(spares) == SPARE_DESCRIPTORS
    assert spares.give_up_one()
    assert len(spares) == SPARE_DESCRIPTORS - 1
    spares.fill()
    assert len(spares) == SPARE_DESCRIPTORS
    spares.close()
    assert len(spares) == 0
    assert not spares.give_up_one()


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.EACCES])
def test_spares_are_filled_as_far_as_there_are_descriptors(
    error: int, spares: SpareDescriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    Shortage(monkeypatch, 1, error)
    if error == errno.EACCES:
        with pytest.raises(PermissionError):
            spares.fill()
    else:
        spares.fill()
    assert len(spares) == 0


@pytest.mark.parametrize(
    ("times", "closes", "left", "closed"),
    [
        (0, False, SPARE_DESCRIPTORS, 0),
        (1, False, SPARE_DESCRIPTORS - 1, 1),
        (1, True, SPARE_DESCRIPTORS, 1),
        (2, True, SPARE_DESCRIPTORS - 1, 1),
    ],
)
def test_file_is_opened_with_an_unneeded_descriptor_and_then_with_a_spare(
    times: int, closes: bool, left: int, closed: int,
    spares: SpareDescriptors, file: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    calls: list[int] = []

    def close_unneeded() -> bool:
        calls.append(1)
        return closes

    spares.fill()
    spares.close_unneeded = close_unneeded
    Shortage(monkeypatch, times)
    assert opened(file) == b"content"
    assert (len(spares), len(calls), spares.shortages) == (left, closed, closed)


@pytest.mark.parametrize("closes", [True, False])
def test_file_cannot_be_opened_when_no_spare_helps(
    closes: bool, spares: SpareDescriptors, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spares.close_unneeded = lambda: closes
    Shortage(monkeypatch, 3)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        open_fd(file, os.O_RDONLY)


@pytest.mark.parametrize("times", [1, 2])
def test_failure_that_is_no_shortage_costs_no_spare(
    times: int, spares: SpareDescriptors, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that comes when an unneeded descriptor is closed."""
    spares.fill()
    shortage = Shortage(monkeypatch, times, errno.EMFILE if times == 2 else errno.EIO)

    def close_unneeded() -> bool:
        shortage.error = errno.EIO
        return True

    spares.close_unneeded = close_unneeded
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        open_fd(file, os.O_RDONLY)
    assert len(spares) == SPARE_DESCRIPTORS


def test_file_is_read_with_a_spare(spares: SpareDescriptors, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spares.fill()
    Shortage(monkeypatch, 1)
    with open_for_reading(file) as content:
        assert content.read() == b"content"
    assert len(spares) == SPARE_DESCRIPTORS - 1


@pytest.mark.parametrize(
    ("error", "is_shortage", "is_full"),
    [
        (errno.EMFILE, True, False),
        (errno.ENFILE, True, False),
        (errno.ENOSPC, False, True),
        (errno.EDQUOT, False, True),
        (errno.EIO, False, False),
    ],
)
def test_failure_of_a_directory_is_a_shortage_a_full_disk_or_a_broken_one(
    error: int, is_shortage: bool, is_full: bool
) -> None:
    failure = LogDirectoryFailure("/d", "writing", OSError(error, os.strerror(error)))
    assert (failure.is_shortage, failure.is_full) == (is_shortage, is_full)
    assert str(failure).startswith("/d: writing: ")
