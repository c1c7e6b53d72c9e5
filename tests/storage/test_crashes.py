"""Processes killed with -9 while they write, and disks that are full or fail."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import decode_batch
from odradek.storage.directory import LogDirectory
from odradek.storage.files.failures import LogDirectoryFailure

from tests.harness.patches import patch_for_this_thread
from tests.storage.formatted import format_directory

#: Enough for kills during rolls, flushes and swaps; `KILLS=500` for a longer manual run.
KILLS = int(os.environ.get("KILLS", "8"))
WRITER = Path(__file__).with_name("writer_process.py")
spec = importlib.util.spec_from_file_location("writer_process", WRITER)
writer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(writer)


class Killed:
    """The output of a writer that is killed `delay_s` seconds after it has printed `lines_before_kill` lines."""

    def __init__(self, directory, mode, seed, lines_before_kill, delay_s):
        process = subprocess.Popen(
            [sys.executable, str(WRITER), str(directory), mode, str(seed)], stdout=subprocess.PIPE, text=True
        )
        deadline = threading.Timer(60, process.kill)
        deadline.start()
        self.said = {"appended": 0, "flushed": 0}
        lines, moment = 0, deadline
        for line in process.stdout:
            if not line.endswith("\n"):
                break
            word, offset = line.split()
            self.said[word] = int(offset)
            lines += 1
            if lines == lines_before_kill:
                # Lines that the writer prints until then are still read from the pipe.
                moment = threading.Timer(delay_s, process.kill)
                moment.start()
        deadline.cancel()
        moment.join()
        process.stdout.close()
        process.wait()
        assert lines >= lines_before_kill, "the writer ended by itself"


def read_through(log, logbook):
    data = logbook.read_all(log)
    return [record for position, _ in iter_headers(data) for record in decode_batch(data, position)]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("mode", ["append", "compact", "retain"])
def test_all_that_was_appended_is_there_after_kill_9(tmp_path, logbook, mode):
    rng = random.Random(mode)
    format_directory(tmp_path)
    for number in range(KILLS):
        killed = Killed(tmp_path, mode, number, rng.randrange(1, 200), rng.random() * 0.05)
        directory = LogDirectory.open(tmp_path)
        assert not directory.had_clean_shutdown
        log = directory.open_log("t", 0, writer.MODES[mode], now_ms=0)
        try:
            # The page cache survives the process, so all appended records must be present.
            assert log.log_end_offset >= killed.said["appended"]
            assert log.recovery_point >= killed.said["flushed"] or number == 0
            records = read_through(log, logbook)
            offsets = [record.offset for record in records]
            assert offsets == sorted(set(offsets)), "each once, in order"
            assert all((r.key, r.value) == (writer.key_at(r.offset), writer.value_at(r.offset)) for r in records)
            if mode == "compact":
                newest = {writer.key_at(offset): offset for offset in range(log.log_end_offset)}
                assert {record.key: record.offset for record in records} == newest
            else:
                assert offsets == list(range(log.log_start_offset, log.log_end_offset))
            # A batch has the leader epoch `base offset // 1000`, even if its last offset is in the next thousand.
            bases = [header.base_offset for _, header in iter_headers(logbook.read_all(log))]
            assert log.epochs.latest == (bases[-1] // 1000 if bases else -1)
        finally:
            log.close(0, clean=False)
            directory.close()
    assert log.log_end_offset > 100


@contextlib.contextmanager
def largest_file(size):
    """Simulates a full disk: a write that exceeds a file size of `size` bytes is cut short, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_up_in_the_middle_of_a_batch_fails_the_directory_and_tears_nothing(logbook):
    log = logbook.open()
    written = b"".join(logbook.append(log, b"x" * 100) for _ in range(10))
    with largest_file(len(written) + 50), pytest.raises(LogDirectoryFailure) as failure:
        logbook.append(log, b"y" * 1000)
    assert failure.value.directory == str(logbook.path.parent)
    assert failure.value.cause.errno == errno.EFBIG
    assert log.log_end_offset == 10
    assert Path(log.active.path).stat().st_size == len(written), "what fitted of the batch is cut off again"
    assert logbook.read_all(log) == written
    assert logbook.read_all(logbook.open()) == written


def test_a_full_disk_fails_an_append(logbook):
    log = logbook.open()
    logbook.append(log, b"x")  # makes the files of the log
    log.active.close()
    path = Path(log.active.path)
    path.unlink()
    path.symlink_to("/dev/full")
    with pytest.raises(LogDirectoryFailure) as failure:
        logbook.append(log, b"x")
    assert failure.value.cause.errno == errno.ENOSPC


def test_the_other_directories_go_on(make_logbook):
    failing, sound = make_logbook("one"), make_logbook("two")
    log, other = failing.open(), sound.open()
    failing.append(log, b"x" * 100)
    with largest_file(log.size), pytest.raises(LogDirectoryFailure) as failure:
        failing.append(log, b"x" * 100)
    assert failure.value.directory == log.log_directory != other.log_directory
    sound.append(other, b"x" * 100)
    assert len(sound.values(other)) == 1


@pytest.mark.parametrize("call", ["read", "flush", "roll", "truncate_to", "close", "offset_for_timestamp"])
def test_whatever_fails_names_the_directory(logbook, call, monkeypatch):
    log = logbook.open()
    for _ in range(3):
        logbook.append(log, b"x" * 5000)
    log.roll(0)
    logbook.append(log, b"x" * 5000)

    def fails(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    for name in ("pread", "fdatasync", "ftruncate", "truncate", "open"):
        patch_for_this_thread(monkeypatch, os, name, fails)
    log.active.close()
    log.segments[0].close()
    arguments = {"read": (0, 100), "truncate_to": (1, 0), "offset_for_timestamp": (1,)}.get(call, (0,))
    with pytest.raises(LogDirectoryFailure) as failure:
        getattr(log, call)(*arguments)
    assert failure.value.directory == str(logbook.path.parent)
    assert failure.value.cause.errno == errno.EIO


def test_a_directory_that_cannot_be_read_fails_at_the_start(tmp_path, logbook):
    logbook.path.parent.mkdir()
    logbook.path.write_text("a file where a directory should be")
    with pytest.raises(LogDirectoryFailure):
        logbook.open()
    directory = LogDirectory.open(tmp_path / "d")
    shutil.rmtree(tmp_path / "d")
    with pytest.raises(LogDirectoryFailure):
        directory.replicas()
    directory.fail()
    assert not directory.is_online
