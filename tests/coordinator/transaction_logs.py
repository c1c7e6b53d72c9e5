"""Logs of simulated transaction and group coordinators, loaded as a broker does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.transaction_loader import TransactionLoader
from odradek.coordinator.transaction_requests import TransactionsConfig
from odradek.coordinator.transaction_shard import TransactionShard
from odradek.protocol.records.record import Record, encode_batch

from tests.coordinator.group_logs import LogRecord
from tests.coordinator.harness.kinds import new_loader

GROUPS = GroupsConfig(offsets_retention_check_interval_ms=1_000_000_000)


class Entry(NamedTuple):
    """A batch in a partition of `__consumer_offsets`. `committed`: None except for a marker."""

    batch: bytes
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool | None
    #: Group and partition -> the offset that a transaction commits.
    offsets: tuple[tuple[str, int, int], ...]


def load_transactions(config: TransactionsConfig, log: Sequence[LogRecord], now: int) -> TransactionShard:
    loader = TransactionLoader(config, "__transaction_state-0")
    if log:
        loader.feed(encode_batch([Record(offset, now, key, value) for offset, (key, value) in enumerate(log)]))
    return loader.loaded(len(log), now)


def load_offsets(log: Sequence[Entry], now: int) -> GroupShard:
    loader = new_loader(GROUPS, "__consumer_offsets-0")
    for entry in log:
        loader.feed(entry.batch)
    return loader.loaded(sum(max(1, len(entry.offsets)) for entry in log), now)


def compacted(log: Sequence[LogRecord]) -> list[LogRecord]:
    latest: dict[bytes, bytes | None] = {}
    for key, value in log:
        latest.pop(key, None)
        latest[key] = value
    return list(latest.items())
