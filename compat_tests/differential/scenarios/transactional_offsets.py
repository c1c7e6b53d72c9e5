"""Transactions: AddOffsetsToTxn, TxnOffsetCommit, DescribeTransactions, ListTransactions, WriteTxnMarkers."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from ..setup_steps import NO_SUCH_ID, fetched, topic
from .transactions import ABORT, COMMIT, added, begun, ended, wrote


def offsets(
    *parts: tuple[int, int], name: Any = "$x", pid: Any = "@pid", epoch: Any = "@epoch", group: str = "$g", **more: Any
) -> dict[str, Any]:
    partitions = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": "m"} for index, offset in parts
    ]
    return {
        "transactional_id": name,
        "group_id": group,
        "producer_id": pid,
        "producer_epoch": epoch,
        "topics": [{"name": "$t", "topic_id": "@t", "partitions": partitions}],
        **more,
    }


def join(*, name: Any = "$x", pid: Any = "@pid", epoch: Any = "@epoch", group: str = "$g") -> dict[str, Any]:
    return {"transactional_id": name, "producer_id": pid, "producer_epoch": epoch, "group_id": group}


def committed_offsets(*, stable: bool = False) -> Step:
    one = {"group_id": "$g", "topics": [{"name": "$t", "topic_id": "@t", "partition_indexes": [0]}]}
    return ask("OffsetFetch", version=9, require_stable=stable, groups=[one])


def marked(
    result: bool,
    *,
    pid: Any = "@pid",
    epoch: Any = "@epoch",
    name: str = "$t",
    partition: int = 0,
    coordinator: int = 0,
) -> Step:
    topics = [{"name": name, "partition_indexes": [partition]}]
    marker = {"producer_id": pid, "producer_epoch": epoch, "transaction_result": result, "topics": topics}
    return ask("WriteTxnMarkers", markers=[{**marker, "coordinator_epoch": coordinator}])


OFFSETS = [
    scenario(
        "AddOffsetsToTxn",
        "a group joins",
        begun(),
        ask("AddOffsetsToTxn", **join()),
        ask("DescribeTransactions", transactional_ids=["$x"]),
    ),
    scenario(
        "AddOffsetsToTxn",
        "wrong producers and groups",
        begun(),
        ask("AddOffsetsToTxn", **join(epoch=7)),
        ask("AddOffsetsToTxn", **join(pid=987_654)),
        ask("AddOffsetsToTxn", **join(name="$nobody")),
        ask("AddOffsetsToTxn", **join(group="")),
    ),
    scenario(
        "TxnOffsetCommit",
        "offsets of a transaction that is committed",
        topic(),
        begun(),
        prepare("AddOffsetsToTxn", **join()),
        ask("TxnOffsetCommit", **offsets((0, 5))),
        committed_offsets(),
        committed_offsets(stable=True),
        ended(COMMIT),
        committed_offsets(stable=True),
        versions="0-4",
    ),
    scenario(
        "TxnOffsetCommit",
        "offsets of a transaction that is aborted",
        topic(),
        begun(),
        prepare("AddOffsetsToTxn", **join()),
        ask("TxnOffsetCommit", **offsets((0, 5))),
        ended(ABORT),
        committed_offsets(stable=True),
        versions="0-4",
    ),
    scenario(
        "TxnOffsetCommit",
        "offsets bring their group in",
        topic(),
        begun(),
        ask("TxnOffsetCommit", **offsets((0, 5))),
        ask("DescribeTransactions", transactional_ids=["$x"]),
        ended(COMMIT),
        committed_offsets(stable=True),
        versions="5+",
    ),
    scenario(
        "TxnOffsetCommit",
        "wrong producers, groups and members",
        topic(),
        begun(),
        prepare("AddOffsetsToTxn", **join()),
        ask("TxnOffsetCommit", **offsets((0, 5), group="")),
        ask("TxnOffsetCommit", **offsets((9, 5))),
        ask("TxnOffsetCommit", **offsets((0, 5), member_id="m", generation_id_or_member_epoch=3)),
        versions="0-4",
    ),
    scenario(
        "TxnOffsetCommit",
        "what is not there",
        topic(),
        begun(),
        prepare("AddOffsetsToTxn", **join()),
        ask(
            "TxnOffsetCommit",
            **{
                **offsets((0, 5)),
                "topics": [
                    {
                        "name": "$none",
                        "topic_id": NO_SUCH_ID,
                        "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}],
                    }
                ],
            },
        ),
    ),
]
REPORTED = [
    scenario(
        "DescribeTransactions",
        "one that goes on, one that never began, one that nobody knows",
        topic(),
        begun(),
        added(0),
        ask("DescribeTransactions", transactional_ids=["$x", "$nobody", ""]),
        ended(COMMIT),
        ask("DescribeTransactions", transactional_ids=["$x"]),
    ),
    scenario("DescribeTransactions", "none", ask("DescribeTransactions", transactional_ids=[])),
    scenario(
        "ListTransactions",
        "by producer, state and age",
        topic(),
        begun(),
        added(0),
        ask("ListTransactions", producer_id_filters=["@pid"]),
        ask("ListTransactions", producer_id_filters=["@pid"], state_filters=["Ongoing", "NoSuchState"]),
        ask("ListTransactions", producer_id_filters=["@pid"], state_filters=["Empty"]),
        ask("ListTransactions", producer_id_filters=["@pid"], duration_filter=3_600_000),
    ),
    scenario(
        "ListTransactions",
        "by the pattern of their names",
        begun(),
        ask("ListTransactions", producer_id_filters=["@pid"], transactional_id_pattern=".*-x"),
        ask("ListTransactions", producer_id_filters=["@pid"], transactional_id_pattern="nothing"),
        ask("ListTransactions", transactional_id_pattern="("),
        versions="2+",
    ),
    scenario(
        "WriteTxnMarkers",
        "a commit and an abort",
        topic(),
        begun(),
        added(0),
        wrote(0, b"a"),
        marked(COMMIT),
        wrote(1, b"b"),
        marked(ABORT),
        fetched(isolation_level=1),
    ),
    scenario(
        "WriteTxnMarkers",
        "what is not there, and epochs of long ago",
        topic(),
        begun(),
        added(0),
        wrote(0, b"a"),
        marked(COMMIT, partition=9),
        marked(COMMIT, name="$none"),
        marked(ABORT, coordinator=5),
        marked(ABORT, coordinator=2),
    ),
    scenario("WriteTxnMarkers", "none", ask("WriteTxnMarkers", markers=[])),
]
SCENARIOS = [*OFFSETS, *REPORTED]
