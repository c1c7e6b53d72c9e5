"""Bugs for processes of Odradek that a test starts: with its folder on PYTHONPATH, Python imports this file first.

`ODRADEK_HISTORIES_BUG` names the bug. The product has no part in this: the file replaces functions of its modules.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

VARIABLE = "ODRADEK_HISTORIES_BUG"


def acknowledge_before_isr() -> None:
    """Injects a bug: a Produce with acks=all is answered when the leader has the records."""
    from odradek.server.produce.parked_produce import ParkedProduce

    def flushed(self: Any, hosted: Any, result: Any, partition: Any, error: int) -> None:
        self._finish_one(partition, error)

    ParkedProduce._flushed = flushed


def drop_a_marker() -> None:
    """Injects a bug: some partitions do not get the marker of a transaction, and the coordinator counts it as written."""
    from odradek.server.coordinators.transaction_markers import TransactionMarkers

    write, rng = TransactionMarkers.write, random.Random(1)

    def sometimes(self: Any, topic: str, index: int, marker: Any, done: Callable[[int], None]) -> None:
        if rng.random() < 0.3:
            done(0)
        else:
            write(self, topic, index, marker, done)

    TransactionMarkers.write = sometimes


def reuse_an_offset() -> None:
    """Injects a bug: consumers get records above the high watermark, whose offsets others take after a truncation."""
    from odradek.storage.log.log import Log

    last_stable_offset = Log.last_stable_offset
    Log.last_stable_offset = lambda self, high_watermark: last_stable_offset(self, self.log_end_offset)


def accept_fenced_commits() -> None:
    """Injects a bug: the coordinator accepts a commit of any generation."""
    from odradek.coordinator.groups.classic import commits

    def accept(state: Any, group: Any, request: Any, version: int, now: int) -> Any:
        from odradek.protocol.errors import ErrorCode  # here, since only this code moves to the other function

        return ErrorCode.NONE

    # Other modules hold the function itself.
    commits.validate_commit.__code__ = accept.__code__


def commit_aborted_offsets() -> None:
    """Injects a bug: the offsets of a transaction take effect although it is aborted."""
    from odradek.coordinator.groups.committed_offsets import OffsetStore

    replay = OffsetStore.replay_end_of_transaction
    OffsetStore.replay_end_of_transaction = lambda self, producer_id, committed: replay(self, producer_id, True)


def release_accepted_records() -> None:
    """Injects a bug: a record that a member of a share group accepts is delivered again."""
    from odradek.coordinator import share_partition

    share_partition._LEADS_TO[share_partition.AckType.ACCEPT] = share_partition.RecordState.AVAILABLE


BUGS = {
    "acknowledge-before-isr": acknowledge_before_isr,
    "drop-a-marker": drop_a_marker,
    "reuse-an-offset": reuse_an_offset,
    "accept-fenced-commits": accept_fenced_commits,
    "commit-aborted-offsets": commit_aborted_offsets,
    "release-accepted-records": release_accepted_records,
}

if os.environ.get(VARIABLE):
    BUGS[os.environ[VARIABLE]]()
