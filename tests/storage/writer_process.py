"""Writes to a log until it is killed: `writer_process.py DIRECTORY MODE SEED`. Run by test_crashes.py.

A record's key and value are computed from its offset, so that the test can verify them. The process prints "appended N"
when all records below N are appended, and "flushed N" when they are flushed. The mode "compact" sometimes compacts the
log, and "retain" sometimes deletes old segments.
"""

from __future__ import annotations

import dataclasses
import random
import sys

from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.compaction.cleaning_job import finish, job
from odradek.storage.compaction.dirty_range import look
from odradek.storage.directory import LogDirectory, checkpoints_of
from odradek.storage.files.checkpoints import RECOVERY_POINTS, write_offsets
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.storage.log.retention import delete_old_segments

CONFIG = LogConfig(
    segment_bytes=20_000, index_interval_bytes=500, min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0
)
MODES = {
    "append": CONFIG,
    "compact": dataclasses.replace(CONFIG, compact=True, delete=False),
    "retain": dataclasses.replace(CONFIG, retention_bytes=60_000, retention_ms=-1),
}


def key_at(offset: int) -> bytes:
    """Returns the key at an offset: half of the keys recur throughout, the others only within a few offsets."""
    return b"often-%d" % (offset % 11) if offset % 2 else b"once-%d" % (offset // 10)


def value_at(offset: int) -> bytes:
    return b"%d:" % offset + random.Random(offset).randbytes(offset % 400)


def batch_at(offset: int, count: int) -> bytes:
    records = [Record(at, 1000 + at, key_at(at), value_at(at)) for at in range(offset, offset + count)]
    return encode_batch(records, leader_epoch=offset // 1000)


def compact(log: Log) -> None:
    dirt = look(log, None, log.log_end_offset, 0)
    if dirt.needs_cleaning(log.config):
        cleaning = job(log, dirt, 0, 1000)
        finish(log, cleaning, cleaning.run(), 0)
        log.delete_scheduled(0)


def main() -> None:
    path, mode, seed = sys.argv[1:]
    rng = random.Random(int(seed))
    directory = LogDirectory.open(path)
    log = directory.open_log("t", 0, MODES[mode], now_ms=0)
    print("appended", log.log_end_offset, flush=True)
    while True:
        log.append(batch_at(log.log_end_offset, rng.randrange(1, 6)), None, 0)
        print("appended", log.log_end_offset, flush=True)
        if rng.random() < 0.05:
            log.flush(0)
            write_offsets(directory.path, RECOVERY_POINTS, checkpoints_of([log]).recovery_points)
            print("flushed", log.log_end_offset, flush=True)
        if mode == "compact" and rng.random() < 0.1:
            compact(log)
        if mode == "retain" and rng.random() < 0.1:
            delete_old_segments(log, 0, log.log_end_offset)
            log.delete_scheduled(0)


if __name__ == "__main__":
    main()
