"""Logs that the start after the end of a process opens from notes, and those that it reads."""

from __future__ import annotations

import os
import shutil
import time

import pytest
from odradek.storage import directory as directories
from odradek.storage.directory import LogDirectory
from odradek.storage.files import clean_replicas, use_mark
from odradek.storage.log import inventory, loading, unopened
from odradek.storage.log.config import LogConfig

from tests.storage.conftest import NOW_MS, Logbook
from tests.storage.formatted import format_directory
from tests.storage.log_histories import (
    HISTORIES,
    SMALL,
    noted_replica,
    open_again,
    plain,
    producers,
    several_segments,
    state,
    stop,
    trimmed,
)

LATER_NS = 10 * clean_replicas.QUIET_NS
FIRST = f"t-0/{0:020d}.log"


class Running:
    """A directory that a broker uses, and its only log. `kill` ends the use without a stop."""

    def __init__(self, path, config=SMALL):
        path.mkdir(exist_ok=True)
        format_directory(path)
        self.path = path
        self.directory = LogDirectory.open(path)
        self.log = self.directory.open_log("t", 0, config, now_ms=NOW_MS)
        self.book = Logbook(path / "t-0")

    def note(self, now_ns=None):
        note = self.directory.note_idle(self.log, bytes(16), time.time_ns() + LATER_NS if now_ns is None else now_ns)
        self.directory.add_notes([note] if note is not None else [])
        return note

    def kill(self):
        self.directory.close()
        return LogDirectory.open(self.path)


@pytest.fixture
def running(tmp_path):
    return Running(tmp_path / "logs")


@pytest.fixture
def listed(monkeypatch):
    """Returns the folders that were looked into."""
    found, take, recover = [], inventory.take_inventory, unopened.recover_small_log
    monkeypatch.setattr(loading, "take_inventory", lambda path: found.append(path) or take(path))
    monkeypatch.setattr(unopened, "recover_small_log", lambda *given: found.append(given[0].path) or recover(*given))
    return found


@pytest.mark.parametrize("history", [one for one in HISTORIES if one is not trimmed])
def test_log_that_is_opened_from_its_note_after_a_kill_is_what_a_look_at_its_files_finds(
    running, tmp_path, listed, history
):
    history(running.book, running.log)
    assert running.note() is not None
    again = running.kill()
    shutil.copytree(running.path, tmp_path / "copy")
    opened = open_again(again, noted_replica(again))
    assert not listed
    expected = open_again(LogDirectory.open(tmp_path / "copy"), None)
    assert state(opened) == state(expected)
    newest = [log.offset_of_max_timestamp() for log in (opened, expected)]
    assert newest[0] == newest[1]
    running.book.append(opened, b"next", leader_epoch=9)
    assert running.book.values(opened)[-1] == (opened.log_end_offset - 1, b"next")


def test_leader_epochs_that_only_the_note_has_are_written_with_the_next_flush(running):
    plain(running.book, running.log)
    running.note()
    again = running.kill()
    opened = open_again(again, noted_replica(again))
    opened.flush(NOW_MS)
    assert (running.path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_log_start_offset_that_only_the_note_has_is_kept(running):
    trimmed(running.book, running.log)
    running.note()
    again = running.kill()
    assert state(open_again(again, noted_replica(again)))["ends"][:2] == (13, 30)


def test_unflushed_log_is_not_taken_for_flushed_after_a_kill(running):
    plain(running.book, running.log)
    running.note()
    again = running.kill()
    assert open_again(again, noted_replica(again)).is_unflushed


def appended(running):
    running.book.append(running.log, b"more")


def torn(running):
    with (running.path / FIRST).open("ab") as file:
        file.write(b"torn")


def rewritten(running):
    """A record is another, at another time."""
    path = running.path / FIRST
    content = path.read_bytes()
    path.write_bytes(content.replace(b"\x00", b"\x01", 1))


def touched(running):
    os.utime(running.path / FIRST, ns=(1, 1))


def new_file(running):
    (running.path / "t-0" / "x.tmp").write_bytes(b"")


@pytest.mark.parametrize("change", [appended, torn, rewritten, touched, new_file])
def test_log_that_has_changed_since_its_note_is_read(running, listed, change):
    plain(running.book, running.log)
    running.note()
    change(running)
    again = running.kill()
    opened = open_again(again, noted_replica(again))
    assert listed
    if change is not rewritten:
        assert (opened.log_end_offset, opened.recovered_bytes) == {appended: (4, 0), torn: (3, 4)}.get(change, (3, 0))


def test_truncated_log_that_has_grown_to_its_noted_size_is_read(running, listed):
    plain(running.book, running.log)
    running.note()
    running.log.truncate_to(2, NOW_MS)
    running.book.append(running.log, b"X")
    assert running.log.log_end_offset == 3
    again = running.kill()
    opened = open_again(again, noted_replica(again))
    assert listed
    assert running.book.values(opened)[-1] == (2, b"X")


def test_log_that_has_just_changed_is_not_noted(running):
    plain(running.book, running.log)
    assert running.note(time.time_ns()) is None


def test_log_is_idle_when_it_has_not_grown_for_an_interval_and_noted_once(running):
    plain(running.book, running.log)
    assert [running.log.is_idle(), running.log.is_idle()] == [False, True]
    running.note()
    assert not running.log.is_idle()
    running.book.append(running.log, b"more")
    assert [running.log.is_idle(), running.log.is_idle()] == [False, True]
    running.note()
    running.log.flush(NOW_MS)  # writes a file
    assert [running.log.is_idle(), running.log.is_idle()] == [False, True]


def test_notes_do_not_count_in_another_boot(running, listed, tmp_path, monkeypatch):
    plain(running.book, running.log)
    running.note()
    (tmp_path / "boot_id").write_text("another boot\n")
    monkeypatch.setattr(use_mark, "_BOOT_ID", tmp_path / "boot_id")
    again = running.kill()
    assert again.interrupted_broker_epoch is None
    assert noted_replica(again) is None
    open_again(again, None)
    again.close()
    assert noted_replica(LogDirectory.open(running.path)) is None, "they are of a boot that is over"


def test_notes_do_not_count_without_a_boot_id(running, tmp_path, monkeypatch):
    monkeypatch.setattr(use_mark, "_BOOT_ID", tmp_path / "none")
    plain(running.book, running.log)
    running.note()
    assert noted_replica(running.kill()) is None


def test_notes_of_a_clean_stop_count_after_a_later_kill(running, listed):
    several_segments(running.book, running.log)
    running.directory.close()
    stop(running.path, running.log)
    used = LogDirectory.open(running.path)
    used.broker_epoch = 41
    used.open_log("other", 0, SMALL, now_ms=NOW_MS)
    used.close()
    listed.clear()
    again = LogDirectory.open(running.path)
    assert (again.had_clean_shutdown, again.interrupted_broker_epoch) == (False, 41)
    found = {one.topic: one for one in again.replicas()}
    opened = open_again(again, again.unchanged(found["t"]))
    assert opened.log_end_offset == 30
    assert not listed


@pytest.mark.parametrize("step", ["write_use_mark", "unlink_if_exists"])
@pytest.mark.parametrize("is_clean", [False, True])
def test_crash_at_the_begin_of_the_use_leaves_a_directory_whose_notes_hold(running, monkeypatch, step, is_clean):
    """With the mark or the file of the shutdown left as it was, each note still is checked against its files."""
    plain(running.book, running.log)
    running.note()
    running.directory.close()
    if is_clean:
        stop(running.path, running.log)
    begins = LogDirectory.open(running.path)

    def crash(*given, **named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(directories, step, crash)
        begins.open_log("other", 0, SMALL, now_ms=NOW_MS)
    begins.close()
    again = LogDirectory.open(running.path)
    assert again.had_clean_shutdown == is_clean
    torn(running)
    opened = open_again(again, noted_replica(again))
    assert (opened.log_end_offset, opened.recovered_bytes) == (3, 4)


def test_last_note_of_a_replica_counts_and_damaged_lines_are_passed_over(running):
    plain(running.book, running.log)
    running.note()
    with (running.path / clean_replicas.CLEAN_REPLICAS_FILE).open("ab") as file:
        file.write(b"torn\n")
    running.book.append(running.log, b"more")
    running.note()
    assert noted_replica(running.kill()).log.end_offset == 4


def test_file_of_notes_is_compacted_when_it_has_grown(running, monkeypatch):
    plain(running.book, running.log)
    monkeypatch.setattr(directories, "_LEAST_NOTES_BYTES", 500)
    running.directory._compact_notes_at = 500
    file, sizes = running.path / clean_replicas.CLEAN_REPLICAS_FILE, set()
    for _ in range(30):
        running.note()
        sizes.add(file.stat().st_size)
    assert max(sizes) < 1500
    assert noted_replica(running.kill()).log.end_offset == 3


def test_recovery_after_a_kill_cuts_exactly_the_torn_tails_of_many_partitions(tmp_path):
    path = tmp_path / "logs"
    path.mkdir()
    format_directory(path)
    directory, config = LogDirectory.open(path), LogConfig()
    logs = [directory.open_log("t", index, config, now_ms=NOW_MS) for index in range(40)]
    for log in logs:
        plain(Logbook(path / f"t-{log.partition}"), log)
    notes = [directory.note_idle(log, bytes(16), time.time_ns() + LATER_NS) for log in logs[:30]]
    directory.add_notes(note for note in notes if note is not None)
    torn_ones, grown_ones = {3, 17, 35}, {5, 18, 36}
    for index in torn_ones:
        with (path / f"t-{index}" / f"{0:020d}.log").open("ab") as file:
            file.write(b"a part of a batch")
    for index in grown_ones:
        Logbook(path / f"t-{index}").append(logs[index], b"acknowledged")
    directory.close()
    again = LogDirectory.open(path)
    opened = {
        one.partition: again.open_log("t", one.partition, config, now_ms=NOW_MS, noted=again.unchanged(one))
        for one in again.replicas()
    }
    assert {index for index, log in opened.items() if log.recovered_bytes} == torn_ones
    assert {index: log.log_end_offset for index, log in opened.items()} == {
        index: 4 if index in grown_ones else 3 for index in range(40)
    }
    assert not any(log.damage for log in opened.values())


def test_producers_of_a_noted_log_are_restored(running):
    producers(running.book, running.log)
    running.note()
    again = running.kill()
    opened = open_again(again, noted_replica(again))
    assert set(opened.producers.by_id) == {7}
