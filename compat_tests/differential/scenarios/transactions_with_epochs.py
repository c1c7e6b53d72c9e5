"""Transactions of version 2 (KIP-890): each end bumps the epoch, and a write to a partition adds it."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from ..setup_steps import fetched, topic
from .transactional_offsets import committed_offsets, offsets
from .transactions import ABORT, COMMIT, begun, completed, end, init, sent

ADDING = 12
_NEXT = {"pid": "producer_id", "epoch": "producer_epoch"}


def wrote(sequence: int, *values: bytes) -> Step:
    """Writes records, which adds their partition to the transaction."""
    return prepare("Produce", version=ADDING, **sent(sequence, *values))


def ended(result: bool, **more: Any) -> list[Step]:
    """Ends the transaction; the next has the epoch from the response."""
    return [prepare("EndTxn", version=5, **end(result), keep=_NEXT, **more), completed()]


def described() -> list[Step]:
    return [
        ask("DescribeTransactions", transactional_ids=["$x"]),
        ask("DescribeProducers", topics=[{"name": "$t", "partition_indexes": [0]}]),
    ]


SCENARIOS = [
    scenario(
        "EndTxn",
        "each end has the next epoch",
        topic(),
        begun(),
        wrote(0, b"a"),
        ask("EndTxn", **end(COMMIT), keep=_NEXT),
        completed(),
        wrote(0, b"b"),
        ask("EndTxn", **end(ABORT), keep=_NEXT),
        completed(),
        wrote(0, b"c"),
        ask("EndTxn", **end(COMMIT), keep=_NEXT),
        completed(),
        described(),
        fetched(isolation_level=1),
        versions="5+",
    ),
    scenario(
        "EndTxn",
        "an end with an epoch of its own is repeated, or another follows",
        topic(),
        begun(),
        wrote(0, b"a"),
        ask("EndTxn", **end(COMMIT)),
        completed(),
        ask("EndTxn", **end(COMMIT)),
        ask("EndTxn", **end(ABORT)),
        described(),
        versions="5+",
    ),
    scenario(
        "EndTxn",
        "an abort of which nothing has arrived",
        begun(),
        ask("EndTxn", **end(ABORT), keep=_NEXT),
        completed(),
        ask("EndTxn", **end(COMMIT)),
        ask("EndTxn", **end(ABORT), keep=_NEXT),
        completed(),
        ask("DescribeTransactions", transactional_ids=["$x"]),
        versions="5+",
    ),
    scenario(
        "Produce",
        "an epoch that its transaction has left behind",
        topic(),
        begun(),
        wrote(0, b"a"),
        prepare("EndTxn", version=5, **end(COMMIT)),
        completed(),
        ask("Produce", **sent(1, b"late")),
        described(),
        versions="12+",
    ),
    scenario(
        "Produce",
        "a sequence that begins anew with each transaction, or should",
        topic(),
        begun(),
        wrote(0, b"a"),
        ended(COMMIT),
        ask("Produce", **sent(1, b"b")),
        ask("Produce", **sent(0, b"b")),
        ask("Produce", **sent(0, b"b")),
        ended(ABORT),
        described(),
        versions="12+",
    ),
    scenario(
        "TxnOffsetCommit",
        "producers that the coordinator does not know so",
        topic(),
        begun(),
        ask("TxnOffsetCommit", **offsets((0, 5), epoch=7)),
        ask("TxnOffsetCommit", **offsets((0, 5), pid=987_654)),
        ask("TxnOffsetCommit", **offsets((0, 5), name="$nobody")),
        ask("TxnOffsetCommit", **offsets((0, 5), name="")),
        ask("DescribeTransactions", transactional_ids=["$x"]),
        versions="5+",
    ),
    scenario(
        "TxnOffsetCommit",
        "two transactions move the same offset, and one of them aborts",
        topic(),
        begun(),
        ask("TxnOffsetCommit", **offsets((0, 5))),
        ended(COMMIT),
        ask("TxnOffsetCommit", **offsets((0, 9))),
        committed_offsets(),
        committed_offsets(stable=True),
        ended(ABORT),
        committed_offsets(stable=True),
        versions="5+",
    ),
    scenario(
        "InitProducerId",
        "whoever comes after an open transaction finds it aborted",
        topic(),
        begun(),
        wrote(0, b"a"),
        prepare("TxnOffsetCommit", version=5, **offsets((0, 5))),
        prepare("InitProducerId", version=4, **init(), until=lambda a: a.error_code == 0),
        ask("InitProducerId", **init(), until=lambda a: a.error_code != 51),
        ask("EndTxn", version=5, **end(COMMIT)),
        ask("Produce", version=ADDING, **sent(1, b"zombie")),
        committed_offsets(stable=True),
        described(),
        fetched(isolation_level=1),
    ),
    scenario(
        "DescribeProducers",
        "of an open transaction, a committed and an aborted one",
        topic(),
        begun(),
        wrote(0, b"a", b"b"),
        ask("DescribeProducers", topics=[{"name": "$t", "partition_indexes": [0]}]),
        ended(COMMIT),
        ask("DescribeProducers", topics=[{"name": "$t", "partition_indexes": [0]}]),
        wrote(0, b"c"),
        ended(ABORT),
        ask("DescribeProducers", topics=[{"name": "$t", "partition_indexes": [0, 1]}]),
    ),
]
