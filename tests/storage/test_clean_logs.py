"""Logs that a start opens from the notes of a clean shutdown, without a look at their files."""

from __future__ import annotations

import os
import shutil

import pytest
from odradek.storage.directory import LogDirectory
from odradek.storage.files import open_files
from odradek.storage.files.checkpoints import RECOVERY_POINTS, write_offsets

from tests.harness.patches import patch_for_this_thread
from tests.storage.conftest import NOW_MS, Logbook
from tests.storage.formatted import format_directory
from tests.storage.log_histories import (
    HISTORIES,
    SMALL,
    led_without_records,
    noted_replica,
    open_again,
    plain,
    several_segments,
    state,
    stop,
    trimmed,
)


@pytest.fixture
def stopped(tmp_path):
    """Returns a function that makes a log with a history and stops; it returns the path of the log directory."""
    path = tmp_path / "logs"

    def made(history):
        path.mkdir()
        format_directory(path)
        book = Logbook(path / "t-0")
        log = book.open(SMALL)
        history(book, log)
        stop(path, log)
        return path

    return made


@pytest.mark.parametrize("history", HISTORIES)
def test_noted_log_is_what_a_look_at_its_files_finds(stopped, tmp_path, history):
    path = stopped(history)
    shutil.copytree(path, tmp_path / "copy")
    directory = LogDirectory.open(path)
    noted = noted_replica(directory)
    assert noted.log is not None
    opened = open_again(directory, noted)
    expected = open_again(LogDirectory.open(tmp_path / "copy"), None)
    assert state(opened) == state(expected)
    book = Logbook(path / "t-0")
    before = book.values(opened)
    assert before == book.values(expected)
    book.append(opened, b"next", leader_epoch=9)
    assert book.values(opened) == [*before, (opened.log_end_offset - 1, b"next")]
    stop_twice = state(opened)["epochs"]
    directory.close()
    stop(path, opened)
    again = LogDirectory.open(path)
    assert state(open_again(again, noted_replica(again)))["epochs"] == stop_twice


@pytest.mark.parametrize("history", [plain, several_segments, trimmed, led_without_records])
def test_noted_log_without_producers_is_opened_without_opening_a_file(stopped, monkeypatch, history):
    directory = LogDirectory.open(stopped(history))
    noted = noted_replica(directory)
    directory.open_log("begins-the-use", 0, SMALL, now_ms=NOW_MS)
    patch_for_this_thread(monkeypatch, open_files, "open_fd", lambda *given: pytest.fail(f"opened {given}"))
    patch_for_this_thread(monkeypatch, os, "scandir", lambda *given: pytest.fail(f"listed {given}"))
    assert open_again(directory, noted).log_end_offset == noted.log.end_offset


def cut(path):
    os.truncate(path, path.stat().st_size - 1)


def rewritten_with_the_same_size(path):
    content = bytearray(path.read_bytes())
    content[8:12] = b"\0\0\1\0"
    with path.open("r+b") as file:
        file.write(content)


def grown(path):
    with path.open("ab") as file:
        file.write(b"torn")


@pytest.mark.parametrize("change", [cut, rewritten_with_the_same_size, grown])
def test_log_whose_file_was_changed_after_the_stop_is_read(stopped, change):
    path = stopped(plain)
    change(path / "t-0" / f"{0:020d}.log")
    directory = LogDirectory.open(path)
    opened = open_again(directory, noted_replica(directory))
    assert opened.recovered_bytes or opened.damage


def test_log_whose_file_is_gone_is_read(stopped):
    path = stopped(plain)
    directory = LogDirectory.open(path)
    noted = noted_replica(directory)
    (path / "t-0" / f"{0:020d}.log").unlink()
    assert list(open_again(directory, noted).damage)


def test_checkpoint_that_contradicts_the_note_is_heeded(stopped):
    path = stopped(plain)
    write_offsets(str(path), RECOVERY_POINTS, {("t", 0): 5})
    directory = LogDirectory.open(path)
    opened = open_again(directory, noted_replica(directory))
    assert [(one.first_offset, one.next_offset) for one in opened.damage] == [(3, 5)]


@pytest.mark.parametrize("name", ["00000000000000000003.log.deleted", "00000000000000000000.log.cleaned", "x.tmp"])
def test_folder_in_which_something_is_to_be_finished_is_not_noted(tmp_path, name):
    path = tmp_path / "logs"
    path.mkdir()
    format_directory(path)
    book = Logbook(path / "t-0")
    log = book.open(SMALL)
    plain(book, log)
    (path / "t-0" / name).write_bytes(b"")
    stop(path, log)
    directory = LogDirectory.open(path)
    noted = noted_replica(directory)
    assert noted.has_files and noted.log is None
    open_again(directory, noted)
    assert not (path / "t-0" / name).exists()


def test_damaged_log_is_not_noted(stopped):
    path = stopped(plain)
    cut(path / "t-0" / f"{0:020d}.log")
    directory = LogDirectory.open(path)
    opened = open_again(directory, noted_replica(directory))
    assert opened.damage
    directory.close()
    stop(path, opened)
    assert noted_replica(LogDirectory.open(path)).log is None
