"""A crash before each file change and in the middle of each write: the content of the log when it opens again."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import decode_batch
from odradek.storage.compaction.cleaning_job import finish, job
from odradek.storage.compaction.dirty_range import look
from odradek.storage.log.config import LogConfig
from odradek.storage.log.retention import delete_old_segments

from tests.harness.patches import patch_for_this_thread

spec = importlib.util.spec_from_file_location("writer_process", Path(__file__).with_name("writer_process.py"))
writer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(writer)

SMALL = LogConfig(segment_bytes=1500, index_interval_bytes=200, min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0)
CHANGES = ("rename", "replace", "unlink", "truncate", "ftruncate", "mkdir")


class Crash(BaseException):
    """A crash of the process: no code catches it, and nothing more is written."""


class CrashingSystem:
    """Counts file changes, and crashes after `at` of them. If the last one is a write, only half of it is written."""

    def __init__(self, monkeypatch, at):
        self.at = at
        self.changes = 0
        self._pwrite, self._open = os.pwrite, os.open
        for name in CHANGES:
            patch_for_this_thread(monkeypatch, os, name, self._counted(getattr(os, name)))
        patch_for_this_thread(monkeypatch, os, "pwrite", self.pwrite)
        patch_for_this_thread(monkeypatch, os, "open", self.open)

    def _count(self):
        if self.changes >= self.at:
            raise Crash
        self.changes += 1

    def _counted(self, function):
        def call(*arguments, **options):
            self._count()
            return function(*arguments, **options)

        return call

    def pwrite(self, fd, buffer, position):
        if self.changes == self.at - 1:
            self._pwrite(fd, memoryview(buffer).cast("B")[: len(buffer) // 2], position)
            self.changes = self.at
            raise Crash
        self._count()
        return self._pwrite(fd, buffer, position)

    def open(self, path, flags, *mode):
        if flags & (os.O_CREAT | os.O_TRUNC):
            self._count()
        return self._open(path, flags, *mode)


class Scenario:
    """The operations on a log, and the end offset of the appends that finished before the crash."""

    config = SMALL

    def __init__(self, logbook):
        self.logbook = logbook
        self.appended = 0

    def append(self, log, count):
        for _ in range(count):
            log.append(writer.batch_at(log.log_end_offset, 2), None, 0)
            self.appended = log.log_end_offset

    def run(self, log):
        raise NotImplementedError

    def check(self, log, records):
        assert [record.offset for record in records] == list(range(log.log_start_offset, log.log_end_offset))
        assert log.log_end_offset >= self.appended


class Appends(Scenario):
    def run(self, log):
        self.append(log, 12)
        log.flush(0)
        self.append(log, 3)
        log.close(0)


class Compacts(Scenario):
    config = dataclasses.replace(SMALL, compact=True, delete=False)

    def run(self, log):
        self.append(log, 25)
        for _ in range(2):
            cleaning = job(log, look(log, None, log.log_end_offset, 0), 0, 1000)
            assert finish(log, cleaning, cleaning.run(), 0)
            log.delete_scheduled(0)
        self.append(log, 2)

    def check(self, log, records):
        assert log.log_end_offset >= self.appended
        newest = {writer.key_at(offset): offset for offset in range(log.log_end_offset)}
        assert {record.key: record.offset for record in records} == newest


class Retains(Scenario):
    config = dataclasses.replace(SMALL, retention_bytes=3000, retention_ms=-1)

    def run(self, log):
        self.append(log, 12)
        delete_old_segments(log, 0, log.log_end_offset)
        log.delete_scheduled(0)
        self.append(log, 3)

    def check(self, log, records):
        super().check(log, records)
        assert log.log_start_offset <= 20


class RetainsLater(Retains):
    """A thread renames the removed segments after the next appends."""

    def run(self, log):
        self.append(log, 12)
        delete_old_segments(log, 0, log.log_end_offset, defer=True)
        self.append(log, 6)
        log.delete_scheduled(0)
        self.append(log, 3)


class Truncates(Scenario):
    def run(self, log):
        self.append(log, 20)
        self.appended = 7
        log.truncate_to(14, 0)
        self.append(log, 3)


class StartsAnew(Scenario):
    def run(self, log):
        self.append(log, 12)
        self.appended = 0
        log.truncate_fully_and_start_at(5, 0)
        self.append(log, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Appends, Compacts, Retains, RetainsLater, Truncates, StartsAnew])
def test_after_a_crash_at_any_change_the_log_opens_whole(make_logbook, monkeypatch, kind):
    number, crashed = 0, True
    while crashed:
        number += 1
        logbook = make_logbook(f"{number}")
        scenario = kind(logbook)
        log = logbook.open(kind.config)
        with monkeypatch.context() as patch:
            system = CrashingSystem(patch, number)
            try:
                scenario.run(log)
                crashed = False
            except Crash:
                pass
        again = logbook.open(kind.config)
        data = logbook.read_all(again)
        records = [record for position, _ in iter_headers(data) for record in decode_batch(data, position)]
        assert all((r.key, r.value) == (writer.key_at(r.offset), writer.value_at(r.offset)) for r in records)
        scenario.check(again, records)
        assert all(Path(one.path).stat().st_size == one.size for one in again.segments if one.size or one.base_offset)
        left = [path.name for path in logbook.path.iterdir()]
        assert not [name for name in left if name.endswith((".swap", ".cleaned", ".deleted", ".tmp"))]
        logbook.append(again, b"goes on")
    assert system.changes in (number - 1, number), "every change had its crash"
    assert number > 20
