"""Small logs that a start after a crash recovers in one read, and those that it leaves to the loader."""

from __future__ import annotations

import os
import random
import shutil
import struct
import time

import pytest
from odradek.storage.directory import LogDirectory, parse_replica_directory
from odradek.storage.files.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, write_offsets
from odradek.storage.files.clean_replicas import QUIET_NS
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.files.partition_metadata import write_topic_id
from odradek.storage.log import small_folders, small_logs, unopened
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.storage.log.unopened import UnopenedLog
from odradek.storage.log.unopened import opened as opened_log

from tests.harness.examples import examples
from tests.storage.conftest import NOW_MS, Logbook
from tests.storage.formatted import format_directory
from tests.storage.log_histories import (
    HISTORIES,
    SMALL,
    find_again,
    open_again,
    open_transaction,
    plain,
    producers,
    several_segments,
    state,
    stop,
    trimmed,
)

FIRST = f"{0:020d}"
#: Segments of such a log have entries in their indexes.
INDEXED = LogConfig(segment_bytes=1 << 20, index_interval_bytes=100)


@pytest.fixture(autouse=True)
def directories_are_closed(monkeypatch):
    """Hundreds are opened here, each with a descriptor of its lock."""
    opened, really = [], LogDirectory.open

    def noted(path):
        opened.append(really(path))
        return opened[-1]

    monkeypatch.setattr(LogDirectory, "open", noted)
    yield
    for one in opened:
        one.close()


@pytest.fixture
def killed(tmp_path):
    """Returns a function that makes a log with a history and ends its use without a stop. It returns the log directory."""
    path = tmp_path / "logs"

    def made(history, config=SMALL):
        path.mkdir()
        format_directory(path)
        book = Logbook(path / "t-0")
        history(book, book.open(config))
        write_topic_id(str(path / "t-0"), bytes(16), sync=False)
        return path

    return made


def opened_alone(path, config):
    return opened_log(found_alone(path, config))


def found_alone(path, config):
    return LogDirectory.open(path).find_log("t", 0, config, now_ms=NOW_MS)


def opened_among_many(path, config):
    """Opens the log as a start does that looks at many."""
    return opened_log(found_if_seen(path, config) or found_alone(path, config))


def opened_if_seen(path, config):
    log = found_if_seen(path, config)
    return log and log.open()


def found_if_seen(path, config):
    directory = LogDirectory.open(path)
    (replica,) = directory.replicas()
    others = [parse_replica_directory(str(path / name)) for name in ("gone-0", "gone-1")]
    before, seen, after = directory.look_at([(one, bytes(16)) for one in (others[0], replica, others[1])])
    assert before is None and after is None
    directory._begin_use()
    log = seen and directory.open_seen(replica, config, seen, now_ms=NOW_MS, is_replicated=False, jitter=0.0)
    directory.close()
    return log


def opened_both_ways(path, monkeypatch, config=SMALL, opened=opened_alone):
    """Returns the log, and a copy of it that the loader has opened."""
    shutil.copytree(path, path.with_name("copy"))
    with monkeypatch.context() as patched:
        patched.setattr(unopened, "recover_small_log", lambda *given: None)
        expected = LogDirectory.open(path.with_name("copy")).open_log("t", 0, config, now_ms=NOW_MS)
    assert type(expected) is Log
    return opened(path, config), expected


def states(opened, expected):
    """States of both, with the paths of the copy as those of the first."""
    return tuple(repr(state(one)).replace("/copy/", "/logs/") for one in (opened, expected))


def led_anew(book, log):
    for number in range(12):
        book.append(log, b"value %d" % number, leader_epoch=number // 4)


def growing_after_a_flush(book, log):
    plain(book, log)
    log.flush(NOW_MS)
    log.active.write_pending()
    led_anew(book, log)


def growing_after_a_stop(book, log):
    led_anew(book, log)
    log.close(NOW_MS)
    led_anew(book, book.open(INDEXED))


def with_times_out_of_order(book, log):
    for number in range(9):
        book.append(log, b"%d" % number, at=NOW_MS - number % 3)
    log.active.write_pending()


def without_records(book, log):
    pass


KINDS = [led_anew, growing_after_a_flush, growing_after_a_stop, with_times_out_of_order, without_records]


def found(log):
    """Times and values that a reader finds."""
    times = [log.offset_for_timestamp(timestamp) for timestamp in (0, NOW_MS - 2, NOW_MS, NOW_MS + 4, NOW_MS + 99)]
    return log.offset_of_max_timestamp(), times, Logbook(log.path).values(log)


def check(opened, expected):
    before = states(opened, expected)
    assert before[0] == before[1]
    assert found(opened) == found(expected)
    for log in (opened, expected):
        Logbook(log.path).append(log, b"next", leader_epoch=9)
        log.truncate_to(max(log.log_end_offset - 2, log.log_start_offset), NOW_MS)
    assert found(opened) == found(expected)
    assert opened.active.max_timestamp == expected.active.max_timestamp


@pytest.mark.parametrize(
    ("history", "config"),
    [*((one, SMALL) for one in HISTORIES), *((one, config) for one in KINDS for config in (INDEXED, LogConfig()))],
)
@pytest.mark.parametrize("opened", [opened_alone, opened_among_many])
def test_small_log_is_what_the_loader_finds(killed, monkeypatch, history, config, opened):
    opened, expected = opened_both_ways(killed(history, config), monkeypatch, config, opened)
    assert opened.noted_end == expected.noted_end
    check(opened, expected)


@pytest.mark.parametrize("history", KINDS)
def test_folder_that_a_running_broker_leaves_is_read_among_many_without_python(killed, monkeypatch, history):
    pytest.importorskip("odradek_kernel")
    path = killed(history, INDEXED)
    monkeypatch.setattr(small_logs, "_kernel", lambda *given: pytest.fail("read alone"))
    monkeypatch.setattr(small_logs, "read_in_python", lambda *given: pytest.fail("read in Python"))
    has_one_epoch = history in (with_times_out_of_order, without_records)
    assert (opened_if_seen(path, INDEXED) is not None) == has_one_epoch
    assert opened_if_seen(path, LogConfig(remote_storage=True)) is None


@pytest.mark.parametrize("harm", ["another id", "rights", "no indexes", "link", "folder", "another segment", "base"])
def test_folder_that_has_more_is_not_read_among_many(killed, harm):
    path = killed(with_times_out_of_order, INDEXED)
    assert opened_if_seen(path, INDEXED) is not None or small_logs._kernel is None
    folder = path / "t-0"
    if harm == "another id":
        write_topic_id(str(folder), bytes(range(16)), sync=False)
    elif harm == "rights":
        folder.chmod(0o755)
    elif harm == "no indexes":
        (folder / f"{FIRST}.index").unlink()
    elif harm == "link":
        (folder / f"{FIRST}.log").rename(path / "moved")
        (folder / f"{FIRST}.log").symlink_to(path / "moved")
    elif harm == "folder":
        (folder / f"{FIRST}.txnindex").mkdir()
    elif harm == "another segment":
        for suffix in ("log", "index", "timeindex"):
            (folder / f"{12:020d}.{suffix}").write_bytes(b"")
    else:
        for suffix in ("log", "index", "timeindex"):
            (folder / f"{FIRST}.{suffix}").rename(folder / f"{'9' * 20}.{suffix}")
    assert opened_if_seen(path, INDEXED) is None


def test_logs_are_read_one_by_one_without_the_kernel(killed, monkeypatch):
    monkeypatch.setattr(small_folders, "_kernel_logs", None)
    monkeypatch.setattr(small_folders, "_kernel_folders", None)
    path = killed(led_anew, INDEXED)
    assert opened_if_seen(path, INDEXED) is None
    assert type(found_alone(path, INDEXED)) is UnopenedLog


@pytest.mark.parametrize("history", KINDS)
def test_small_log_is_not_used_before_it_is_needed(killed, history):
    log = find_again(LogDirectory.open(killed(history, LogConfig())), None)
    assert type(log) is UnopenedLog and log.flush_due(NOW_MS) is None


@pytest.mark.parametrize("history", [several_segments, trimmed, producers, open_transaction])
def test_log_with_producers_or_several_segments_is_left_to_the_loader(killed, history):
    log = find_again(LogDirectory.open(killed(history)), None)
    assert type(log) is Log


def test_recovery_changes_no_file(killed):
    path = killed(growing_after_a_stop, INDEXED)
    before = {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns) for entry in (path / "t-0").iterdir()}
    open_again(LogDirectory.open(path), None)
    after = {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns) for entry in (path / "t-0").iterdir()}
    assert before == after


@pytest.mark.parametrize("config", [LogConfig(flush_messages=5), LogConfig(flush_ms=10)])
def test_flush_of_a_recovered_log_is_due_as_that_of_another(killed, monkeypatch, config):
    logs = opened_both_ways(killed(led_anew, config), monkeypatch, config)
    assert [log.flush_due(NOW_MS + 10) for log in logs] == [12, 12]
    for log in logs:
        log.flush(NOW_MS + 10)
    assert [log.flush_due(NOW_MS + 20) for log in logs] == [None, None]


def test_recovered_log_is_stopped_cleanly_with_all_that_the_next_start_needs(killed, tmp_path):
    path = killed(growing_after_a_stop, INDEXED)
    directory = LogDirectory.open(path)
    log = open_again(directory, None)
    expected = found(log)
    directory.close()
    stop(path, log)
    again = LogDirectory.open(path)
    assert found(again.open_log("t", 0, INDEXED, now_ms=NOW_MS)) == expected
    names = {entry.name for entry in (path / "t-0").iterdir()}
    assert "leader-epoch-checkpoint" in names
    assert not any(name.endswith(".snapshot") for name in names), "the note has that there are no producers"


def test_recovered_log_is_noted_and_opened_from_the_note_after_the_next_kill(killed, monkeypatch):
    path = killed(growing_after_a_flush, INDEXED)
    directory = LogDirectory.open(path)
    log = open_again(directory, None)
    assert [log.is_idle(), log.is_idle()] == [False, True]
    note = directory.note_idle(log, bytes(range(16)), time.time_ns() + QUIET_NS)
    directory.add_notes([note])
    expected = state(log), found(log)
    directory.close()
    again = LogDirectory.open(path)
    (replica,) = again.replicas()
    monkeypatch.setattr(unopened, "recover_small_log", lambda *given: pytest.fail("it is noted"))
    noted = again.unchanged(replica)
    assert noted.topic_id == bytes(range(16))
    opened = open_again(again, noted)
    assert (state(opened), found(opened)) == expected


def grown_on(book, log):
    book.append(log, b"more", b"and more", leader_epoch=4)


def grown_in_its_epoch(book, log):
    book.append(log, b"more", leader_epoch=max(log.epochs.latest, 0))


def grown_by_a_producer(book, log):
    book.append(log, b"more", producer_id=7, producer_epoch=1, base_sequence=0)


def truncated(book, log):
    log.truncate_to(log.log_end_offset - 1, NOW_MS)


@pytest.mark.parametrize("change", [grown_on, grown_in_its_epoch, grown_by_a_producer, truncated])
@pytest.mark.parametrize("history", [plain, led_anew, growing_after_a_flush, growing_after_a_stop, several_segments])
def test_log_that_changed_after_its_note_is_what_the_loader_finds(killed, monkeypatch, history, change):
    config = SMALL if history is several_segments else INDEXED
    path = killed(history, config)
    directory = LogDirectory.open(path)
    log = directory.open_log("t", 0, config, now_ms=NOW_MS)
    book = Logbook(log.path)
    note = directory.note_idle(log, bytes(16), time.time_ns() + 2 * QUIET_NS)
    directory.add_notes([note])
    change(book, log)
    directory.close()
    shutil.copytree(path, path.with_name("copy"))
    again = LogDirectory.open(path)
    (replica,) = again.replicas()
    found_log = again.find_log("t", 0, config, now_ms=NOW_MS, noted=again.unchanged(replica))
    opened = opened_log(found_log)
    with monkeypatch.context() as patched:
        patched.setattr(unopened, "recover_small_log", lambda *given: None)
        expected = LogDirectory.open(path.with_name("copy")).open_log("t", 0, config, now_ms=NOW_MS)
    is_small = history is not several_segments and change is not grown_by_a_producer
    assert (type(found_log) is UnopenedLog) == is_small
    again.close()
    among_many = opened_if_seen(path, config)
    assert among_many is None or is_small
    assert among_many is not None or (history, change) != (plain, grown_in_its_epoch) or small_logs._kernel is None
    if among_many is not None:
        assert states(among_many, expected)[0] == states(among_many, expected)[1]
        assert among_many.noted_end == opened.noted_end
    check(opened, expected)


def test_checkpoints_that_contradict_a_small_log_are_heeded(killed, monkeypatch):
    path = killed(led_anew, INDEXED)
    write_offsets(str(path), RECOVERY_POINTS, {("t", 0): 20})
    opened, expected = opened_both_ways(path, monkeypatch)
    assert [(one.first_offset, one.next_offset) for one in opened.damage] == [(12, 20)]
    assert states(opened, expected)[0] == states(opened, expected)[1]


@pytest.mark.parametrize("start", [3, 12, 13])
def test_log_start_offset_of_the_checkpoint_holds_for_a_small_log(killed, monkeypatch, start):
    path = killed(led_anew, INDEXED)
    write_offsets(str(path), LOG_START_OFFSETS, {("t", 0): start})
    opened, expected = opened_both_ways(path, monkeypatch, INDEXED)
    assert states(opened, expected)[0] == states(opened, expected)[1]


@pytest.mark.parametrize("opened", [opened_alone, opened_among_many])
@pytest.mark.parametrize("offset", [1, 3, 9, 10, 20])
@pytest.mark.parametrize("name", [LOG_START_OFFSETS, RECOVERY_POINTS])
def test_checkpoint_of_a_log_with_one_epoch_is_heeded(killed, monkeypatch, name, offset, opened):
    path = killed(with_times_out_of_order, INDEXED)
    write_offsets(str(path), name, {("t", 0): offset})
    both = states(*opened_both_ways(path, monkeypatch, INDEXED, opened))
    assert both[0] == both[1]


def flipped(path, rng):
    content = bytearray(path.read_bytes())
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)


def cut(path, rng):
    os.truncate(path, rng.randrange(path.stat().st_size + 1))


def grown(path, rng):
    with path.open("ab") as file:
        file.write(rng.randbytes(rng.choice((1, 8, 12, 100))))


def zeros(path, rng):
    os.truncate(path, path.stat().st_size + rng.choice((8, 12, 4096)))


def gone(path, rng):
    path.unlink()


def folder(path, rng):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("harm", [flipped, cut, grown, zeros, gone, folder])
@pytest.mark.parametrize("history", [led_anew, growing_after_a_stop, with_times_out_of_order])
@pytest.mark.parametrize("seed", range(examples(5)))
@pytest.mark.parametrize("way", [opened_alone, opened_among_many])
def test_harmed_small_log_is_what_the_loader_finds(killed, monkeypatch, harm, history, seed, way):
    rng = random.Random(seed)
    path = killed(history, INDEXED)
    for number, name in enumerate(sorted(one.name for one in (path / "t-0").iterdir())):
        copy = path.with_name(f"{number}") / "logs"
        shutil.copytree(path, copy)
        harm(copy / "t-0" / name, rng)
        opened, expected = opened_both_ways(copy, monkeypatch, INDEXED, way)
        before = states(opened, expected)
        assert before[0] == before[1], name
        if not opened.damage:
            assert found(opened) == found(expected), name


@pytest.mark.parametrize(
    "entries", [[(3, 1)], [(1, 10_000)], [(5, 0), (3, 0)], [(-1, 0)]], ids=["between", "behind", "falling", "negative"]
)
def test_index_that_contradicts_the_batches_is_built_again(killed, monkeypatch, entries):
    path = killed(led_anew, LogConfig())
    index = path / "t-0" / f"{FIRST}.index"
    index.write_bytes(b"".join(struct.pack(">ii", *one) for one in entries))
    opened = LogDirectory.open(path).open_log("t", 0, LogConfig(), now_ms=NOW_MS)
    assert type(opened) is Log and index.read_bytes() == b""


def test_offset_index_that_goes_further_than_the_time_index_is_built_again(killed):
    path = killed(growing_after_a_stop, INDEXED)
    times = path / "t-0" / f"{FIRST}.timeindex"
    os.truncate(times, 12)
    log = open_again(LogDirectory.open(path), None)
    assert type(log) is Log and times.stat().st_size > 12


# ---- the kernel, which has the same in C


def read_both_ways(folder, base_offset=0):
    """Returns what the kernel reads, and what Python reads; None for an OSError, which Python raises."""
    directory = PartitionDirectory(str(folder))
    try:
        in_python = small_logs.read_in_python(directory, base_offset)
    except OSError:
        in_python = None
    return small_logs.read_in_kernel(directory, base_offset), in_python


@pytest.fixture
def with_kernel():
    if small_logs._kernel is None:
        pytest.skip("pip had no compiler for the kernel")


@pytest.mark.usefixtures("with_kernel")
@pytest.mark.parametrize(
    ("history", "config"),
    [*((one, SMALL) for one in HISTORIES), *((one, config) for one in KINDS for config in (INDEXED, LogConfig()))],
)
def test_kernel_reads_a_small_log_as_python_does(killed, history, config):
    folder = killed(history, config) / "t-0"
    bases = [int(one.stem) for one in folder.glob("*.log")]
    both = [read_both_ways(folder, base) for base in bases]
    assert [one for one, _ in both] == [other for _, other in both]
    if history in KINDS and bases:
        assert both[0][0] is not None, "all these logs are small and whole"


@pytest.mark.usefixtures("with_kernel")
@pytest.mark.parametrize("harm", [flipped, cut, grown, zeros, gone, folder])
@pytest.mark.parametrize("history", [led_anew, growing_after_a_stop, with_times_out_of_order])
def test_kernel_accepts_a_harmed_log_only_as_python_does(killed, harm, history):
    path = killed(history, INDEXED) / "t-0"
    rng = random.Random(f"{harm.__name__} {history.__name__}")
    accepted = 0
    for number in range(60):
        copy = path.with_name(f"copy-{number}")
        shutil.copytree(path, copy)
        harm(copy / rng.choice([f"{FIRST}{suffix}" for suffix in (".log", ".index", ".timeindex")]), rng)
        in_kernel, in_python = read_both_ways(copy)
        assert in_kernel == in_python, number
        accepted += in_kernel is not None
    assert accepted < 60, "some are damaged"


@pytest.mark.usefixtures("with_kernel")
def test_kernel_finds_every_cut_and_every_flipped_byte(killed):
    path = killed(growing_after_a_stop, INDEXED) / "t-0"
    for suffix in (".log", ".index", ".timeindex"):
        file = path / f"{FIRST}{suffix}"
        content = file.read_bytes()
        for position in range(len(content)):
            for harmed in (
                content[:position],
                content[:position] + bytes([content[position] ^ 0x41]) + content[position + 1 :],
            ):
                file.write_bytes(harmed)
                in_kernel, in_python = read_both_ways(path)
                assert in_kernel == in_python, (suffix, position)
        file.write_bytes(content)


@pytest.mark.usefixtures("with_kernel")
def test_kernel_leaves_large_logs_producers_and_many_epochs_to_python(killed, logbook):
    log = logbook.open(LogConfig())
    for epoch in range(17):
        logbook.append(log, b"value", leader_epoch=epoch)
    in_kernel, in_python = read_both_ways(logbook.path)
    assert in_kernel is None and len(in_python.epochs) == 17
    while log.size <= small_logs.MOST_BYTES:
        before = read_both_ways(logbook.path)
        logbook.append(log, bytes(4000), leader_epoch=16)
    assert before[1] is not None and read_both_ways(logbook.path) == (None, None)


@pytest.mark.usefixtures("with_kernel")
@pytest.mark.parametrize("base_offset", [1 << 62, (1 << 62) + 1, (1 << 63) - 1, 10**20 - 1])
def test_kernel_reads_a_log_at_the_largest_offsets_as_python_does(tmp_path, base_offset):
    for suffix in (".log", ".index", ".timeindex"):
        (tmp_path / f"{base_offset:020d}{suffix}").touch()
    in_kernel, in_python = read_both_ways(tmp_path, base_offset)
    assert in_python.end_offset == base_offset
    assert in_kernel == (in_python if base_offset == 1 << 62 else None)


def test_small_log_is_recovered_without_the_kernel(killed, monkeypatch):
    monkeypatch.setattr(small_logs, "_kernel", None)
    opened, expected = opened_both_ways(killed(growing_after_a_stop, INDEXED), monkeypatch, INDEXED, found_alone)
    assert type(opened) is UnopenedLog
    opened = opened.open()
    check(opened, expected)
