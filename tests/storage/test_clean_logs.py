"""Logs that a start opens from the notes of a clean shutdown, without a look at their files."""

from __future__ import annotations

import os
import shutil

import pytest
from odradek.storage.directory import LogDirectory, parse_replica_directory
from odradek.storage.files import note_states, open_files, writes
from odradek.storage.files.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, write_offsets
from odradek.storage.log.log import Log
from odradek.storage.log.small_logs import MOST_BYTES
from odradek.storage.log.unopened import UnopenedLog

from tests.harness.patches import patch_for_this_thread
from tests.storage.conftest import NOW_MS, Logbook
from tests.storage.formatted import format_directory
from tests.storage.log_histories import (
    HISTORIES,
    SMALL,
    emptied,
    find_again,
    led_without_records,
    noted_replica,
    open_again,
    open_transaction,
    plain,
    producers,
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


def large(book, log):
    book.append(log, bytes(MOST_BYTES), leader_epoch=3)


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


@pytest.mark.parametrize(("history", "has_snapshot"), [(plain, False), (producers, True), (large, True)])
def test_stop_writes_a_snapshot_unless_the_log_is_small_and_has_no_producers(stopped, history, has_snapshot):
    path = stopped(history)
    assert bool(list((path / "t-0").glob("*.snapshot"))) == has_snapshot
    before = sorted((entry.name, entry.stat().st_mtime_ns) for entry in (path / "t-0").iterdir())
    directory = LogDirectory.open(path)
    log = find_again(directory, noted_replica(directory))
    directory.close()
    stop(path, log)
    assert unused(log) != (history is producers), "the next stop looks at no log that is not used"
    assert sorted((entry.name, entry.stat().st_mtime_ns) for entry in (path / "t-0").iterdir()) == before


@pytest.mark.parametrize("history", [plain, several_segments, trimmed, led_without_records])
def test_noted_log_without_producers_is_opened_without_opening_a_file(stopped, monkeypatch, history):
    directory = LogDirectory.open(stopped(history))
    noted = noted_replica(directory)
    directory.open_log("begins-the-use", 0, SMALL, now_ms=NOW_MS)
    for module in (open_files, writes):
        patch_for_this_thread(monkeypatch, module, "open_fd", lambda *given: pytest.fail(f"opened {given}"))
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


# ---- many logs whose files are compared with their notes in one call


@pytest.fixture(params=["kernel", "python"])
def compared(request, monkeypatch):
    """Returns a function that opens the log of a directory as a start opens many; None where a file has to be looked at."""
    if request.param == "python":
        monkeypatch.setattr(note_states, "_kernel", None)
    else:
        pytest.importorskip("odradek_kernel")

    def opened(directory):
        (replica,) = directory.replicas()
        seen = directory.look_at([(replica, bytes(16))])[0]
        assert seen in (None, (directory.unchanged(replica), True, None, False))
        directory.open_log("begins-the-use", 0, SMALL, now_ms=NOW_MS)
        if seen is None:
            return None
        return directory.open_seen(replica, SMALL, seen, now_ms=NOW_MS, is_replicated=False, jitter=0.0)

    return opened


@pytest.mark.parametrize("history", HISTORIES)
def test_log_that_is_compared_with_many_is_the_same(stopped, tmp_path, compared, history):
    path = stopped(history)
    shutil.copytree(path, tmp_path / "copy")
    for entry in [path / "t-0", *(path / "t-0").iterdir()]:  # a copy has other times
        os.utime(tmp_path / "copy" / entry.relative_to(path), ns=(0, entry.stat().st_mtime_ns))
    log = compared(LogDirectory.open(path))
    expected = opened_from_note(tmp_path / "copy")[1]
    if history in (producers, open_transaction):
        assert log is None, "the snapshot of producers may be damaged"
        return
    assert unused(log) and unused(expected) and ends(log)[:-1] == ends(expected)[:-1]
    assert state(log.open()) == state(expected.open())


@pytest.mark.parametrize(
    "change",
    [
        lambda log: cut(log),
        lambda log: rewritten_with_the_same_size(log),
        lambda log: grown(log),
        lambda log: os.utime(log, ns=(0, log.stat().st_mtime_ns + 1)),
        lambda log: os.utime(log.parent, ns=(0, log.parent.stat().st_mtime_ns - 1)),
        lambda log: log.parent.chmod(0o701),
        lambda log: log.unlink(),
        lambda log: log.rename(log.with_suffix(".gone")),
        lambda log: (log.parent / "new").write_bytes(b""),
    ],
)
@pytest.mark.parametrize("history", [plain, several_segments])
def test_change_after_the_note_is_seen_among_many(stopped, compared, change, history):
    path = stopped(history)
    change(max((path / "t-0").glob("*.log")))
    assert compared(LogDirectory.open(path)) is None


@pytest.mark.parametrize(("name", "offset"), [(RECOVERY_POINTS, 2), (RECOVERY_POINTS, 5), (LOG_START_OFFSETS, 4)])
def test_checkpoint_that_contradicts_the_note_has_the_files_looked_at(stopped, compared, name, offset):
    path = stopped(plain)
    write_offsets(str(path), name, {("t", 0): offset})
    assert compared(LogDirectory.open(path)) is None


def test_folder_that_is_gone_or_was_never_noted_is_not_as_noted(stopped, compared):
    path = stopped(plain)
    directory = LogDirectory.open(path)
    (replica,) = directory.replicas()
    (path / "u-1").mkdir()
    others = [parse_replica_directory(str(path / name)) for name in ("gone-0", "u-1")]
    replicas = [(one, bytes(16)) for one in (others[0], replica, others[1])]
    assert [one is not None for one in directory.look_at(replicas)] == [False, True, False]
    shutil.rmtree(path / "t-0")
    assert directory.look_at([(replica, bytes(16))]) == [None]


def test_folder_with_another_name_of_the_same_partition_is_looked_at(stopped, compared):
    path = stopped(plain)
    (path / "t-0").rename(path / "t-00")
    assert compared(LogDirectory.open(path)) is None


# ---- logs that nothing has used since their start


def opened_from_note(path):
    directory = LogDirectory.open(path)
    return directory, find_again(directory, noted_replica(directory))


def unused(log):
    """Whether nothing has opened the log: the object that a start finds stays what it is after that."""
    return type(log) is UnopenedLog and log._opened is None


def ends(log):
    return (
        log.log_start_offset, log.log_end_offset, log.recovery_point, log.local_log_start_offset, log.first_base_offset,
        log.size, log.segment_count, log.has_files, log.has_removed_segments, log.is_unflushed, log.is_idle(),
        log.last_stable_offset(log.log_end_offset), len(log.damage), log.recovered_bytes, log.path,
    )  # fmt: skip


@pytest.mark.parametrize("history", [plain, several_segments, trimmed, emptied, led_without_records])
def test_ends_of_an_unused_log_are_those_of_the_whole_one_and_make_nothing(stopped, history):
    _, log = opened_from_note(stopped(history))
    before = ends(log)
    log.expire_producers(NOW_MS, 0)
    assert unused(log)
    opened = log.open()
    assert not unused(log)
    assert type(opened) is Log and log.open() is opened
    assert ends(opened) == before


def test_opened_log_is_what_a_look_at_its_files_finds(stopped):
    path = stopped(several_segments)
    directory, log = opened_from_note(path)
    opened = log.open()
    directory.close()
    assert state(opened) == state(open_again(LogDirectory.open(path), None))


@pytest.mark.parametrize(("leader_epoch", "latest"), [(9, 9), (1, 2), (-1, 2)])
@pytest.mark.parametrize("takes_over", [False, True])
def test_role_that_begins_before_the_first_use_is_kept(stopped, leader_epoch, latest, takes_over):
    _, log = opened_from_note(stopped(several_segments))
    log.begin_role(4, takes_over=not takes_over)
    log.begin_role(leader_epoch, takes_over=takes_over)
    assert unused(log)
    opened = log.open()
    assert opened.epochs.latest == latest
    assert opened.producers.takeover_offset == (log.log_end_offset if takes_over else None)
    assert [epoch for epoch, _ in opened.epochs.entries()][:3] == [0, 1, 2]


@pytest.mark.parametrize("history", [plain, several_segments, trimmed, led_without_records])
def test_stop_of_an_unused_log_touches_no_file_and_keeps_its_note(stopped, monkeypatch, history):
    path = stopped(history)
    directory, log = opened_from_note(path)
    note = log.note
    log.begin_role(12, takes_over=True)
    before = {entry.name: entry.stat().st_mtime_ns for entry in (path / "t-0").iterdir()}
    directory.close()
    with monkeypatch.context() as patches:
        patch_for_this_thread(patches, os, "truncate", lambda *given: pytest.fail(f"cut {given}"))
        stop(path, log)
    assert unused(log)
    assert {entry.name: entry.stat().st_mtime_ns for entry in (path / "t-0").iterdir()} == before
    again = LogDirectory.open(path)
    assert noted_replica(again) == note
    assert unused(find_again(again, noted_replica(again)))


@pytest.mark.parametrize("change", [cut, rewritten_with_the_same_size, grown])
def test_file_that_was_changed_while_its_log_was_unused_is_read_by_the_next_start(stopped, change):
    path = stopped(plain)
    directory, log = opened_from_note(path)
    change(path / "t-0" / f"{0:020d}.log")
    directory.close()
    stop(path, log)
    opened = opened_from_note(path)[1]
    assert type(opened) is Log and (opened.recovered_bytes or opened.damage)


def test_file_that_came_into_the_folder_while_its_log_was_unused_is_found_by_the_next_start(stopped):
    path = stopped(plain)
    directory, log = opened_from_note(path)
    left = path / "t-0" / f"{0:020d}.log.cleaned"
    left.write_bytes(b"")
    directory.close()
    stop(path, log)
    opened = opened_from_note(path)[1]
    assert type(opened) is Log and opened.log_end_offset == 3
    assert not left.exists()


def test_start_offset_that_a_checkpoint_has_raised_is_noted_for_an_unused_log(stopped):
    path = stopped(several_segments)
    write_offsets(str(path), LOG_START_OFFSETS, {("t", 0): 5})
    directory, log = opened_from_note(path)
    assert unused(log) and log.log_start_offset == 5
    directory.close()
    stop(path, log)
    assert noted_replica(LogDirectory.open(path)).log.start_offset == 5


@pytest.mark.parametrize("history", [producers, open_transaction])
def test_log_with_producers_is_made_at_once(stopped, history):
    _, log = opened_from_note(stopped(history))
    assert type(log) is Log and log.producers.by_id


def test_log_without_files_is_made_when_it_is_used(stopped):
    path = stopped(lambda book, log: None)
    directory, log = opened_from_note(path)
    assert unused(log) and not log.has_files and ends(log)[:7] == (0, 0, 0, 0, 0, 0, 1)
    directory.close()
    stop(path, log)
    assert unused(log) and not list((path / "t-0").iterdir())
    log = opened_from_note(path)[1].open()
    Logbook(path / "t-0").append(log, b"first", leader_epoch=1)
    assert type(log) is Log and log.has_files and log.log_end_offset == 1 and log.epochs.entries() == [(1, 0)]


def test_unused_log_is_moved_with_its_folder(stopped):
    path = stopped(plain)
    directory, log = opened_from_note(path)
    directory.discard(log, NOW_MS)
    assert log.path.endswith("-delete") and log.open().segments[0].path.startswith(log.path)
