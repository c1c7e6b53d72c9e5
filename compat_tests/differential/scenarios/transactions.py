"""Transactions: InitProducerId with an id, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and what tools are told."""

from __future__ import annotations

from typing import Any

from ..ground import topic
from ..scenario import Step, ask, prepare, scenario


def coordinator() -> Step:
    """Its topic is made by the first to ask; then it is there in a while."""
    return prepare(
        "FindCoordinator",
        version=4,
        key_type=1,
        coordinator_keys=["$x"],
        until=lambda answer: answer.coordinators[0].error_code == 0,
    )


def begun(**more: Any) -> list[Step]:
    """`@pid` at epoch 0."""
    init = prepare(
        "InitProducerId",
        version=4,
        transactional_id="$x",
        transaction_timeout_ms=60_000,
        keep={"pid": "producer_id"},
        until=lambda answer: answer.error_code == 0,
    )
    return [coordinator(), init]


def init(**more: Any) -> Step:
    return ask("InitProducerId", **{"transactional_id": "$x", "transaction_timeout_ms": 60_000, **more})


def added(*indexes: int, name: str = "$t", epoch: int = 0, pid: Any = "@pid") -> dict[str, Any]:
    return {
        "v3_and_below_transactional_id": "$x",
        "v3_and_below_producer_id": pid,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": [{"name": name, "partitions": list(indexes)}],
        "transactions": [
            {
                "transactional_id": "$x",
                "producer_id": pid,
                "producer_epoch": epoch,
                "verify_only": False,
                "topics": [{"name": name, "partitions": list(indexes)}],
            }
        ],
    }


def end(committed: bool, epoch: int = 0, pid: Any = "@pid") -> dict[str, Any]:
    return {"transactional_id": "$x", "producer_id": pid, "producer_epoch": epoch, "committed": committed}


def ended(committed: bool) -> list[Step]:
    """The old way, until its markers are written."""
    return [
        prepare("EndTxn", version=4, **end(committed), until=lambda answer: answer.error_code == 0),
        prepare(
            "DescribeTransactions",
            transactional_ids=["$x"],
            until=lambda answer: answer.transaction_states[0].transaction_state.startswith("Complete"),
        ),
    ]


def offsets(*indexes: int, name: str = "$t", topic_id: Any = "@t", **more: Any) -> dict[str, Any]:
    partitions = [
        {"partition_index": index, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "m"}
        for index in indexes
    ]
    return {
        "transactional_id": "$x",
        "group_id": "$g",
        "producer_id": "@pid",
        "producer_epoch": 0,
        "topics": [{"name": name, "topic_id": topic_id, "partitions": partitions}],
        **more,
    }


def marker(pid: int, index: int, epoch: int = 0) -> dict[str, Any]:
    return {
        "producer_id": pid,
        "producer_epoch": epoch,
        "transaction_result": False,
        "topics": [{"name": "$t", "partition_indexes": [index]}],
        "coordinator_epoch": 0,
        "transaction_version": 0,
    }


def offsets_added() -> Step:
    return prepare(
        "AddOffsetsToTxn", version=3, transactional_id="$x", producer_id="@pid", producer_epoch=0, group_id="$g"
    )


def added_before() -> Step:
    return prepare("AddPartitionsToTxn", version=3, **added(0))


SCENARIOS = [
    scenario(
        "InitProducerId",
        "of transactions: timeouts that are refused",
        coordinator(),
        init(transaction_timeout_ms=0),
        init(transaction_timeout_ms=900_001),
    ),
    scenario(
        "InitProducerId",
        "of transactions: the next epoch, and who had the one before",
        begun(),
        init(),
        init(producer_id="@pid", producer_epoch=1),
        init(producer_id="@pid", producer_epoch=1),
        init(producer_id="@pid", producer_epoch=0),
        init(producer_id=77_777, producer_epoch=0),
        versions="3+",
    ),
    scenario(
        "AddPartitionsToTxn",
        "known, unknown, fenced",
        topic(),
        begun(),
        ask("AddPartitionsToTxn", **added(0)),
        ask("AddPartitionsToTxn", **added(0, 77)),
        ask("AddPartitionsToTxn", **added(0, name="$none")),
        ask("AddPartitionsToTxn", **added(0, epoch=5)),
        ask("AddPartitionsToTxn", **added(0, pid=77_777)),
    ),
    scenario(
        "AddOffsetsToTxn",
        "a group, and a producer that is none",
        begun(),
        ask("AddOffsetsToTxn", transactional_id="$x", producer_id="@pid", producer_epoch=0, group_id="$g"),
        ask("AddOffsetsToTxn", transactional_id="$x", producer_id="@pid", producer_epoch=3, group_id="$g"),
        ask("AddOffsetsToTxn", transactional_id="", producer_id="@pid", producer_epoch=0, group_id="$g"),
    ),
    scenario(
        "EndTxn",
        "of nothing, of others, of unknown ids",
        begun(),
        ask("EndTxn", **end(True)),
        ask("EndTxn", **end(True, epoch=7)),
        ask("EndTxn", **end(True, pid=77_777)),
        ask("EndTxn", transactional_id="$none", producer_id=1, producer_epoch=0, committed=True),
        ask("EndTxn", transactional_id="", producer_id=1, producer_epoch=0, committed=True),
    ),
    scenario("EndTxn", "a commit", topic(), begun(), added_before(), ask("EndTxn", **end(True))),
    scenario("EndTxn", "an abort", topic(), begun(), added_before(), ask("EndTxn", **end(False))),
    scenario(
        "EndTxn",
        "after the old way's commit",
        topic(),
        begun(),
        added_before(),
        ended(True),
        ask("EndTxn", **end(False)),
        ask("EndTxn", **end(True)),
    ),
    scenario(
        "TxnOffsetCommit",
        "in a transaction",
        topic(),
        begun(),
        offsets_added(),
        ask("TxnOffsetCommit", **offsets(0)),
        ask("TxnOffsetCommit", **offsets(0, 77)),
        ask("OffsetFetch", version=8, groups=[{"group_id": "$g", "topics": None}], require_stable=False),
        ended(True),
        ask("OffsetFetch", version=8, groups=[{"group_id": "$g", "topics": None}], require_stable=True),
    ),
    scenario(
        "TxnOffsetCommit",
        "of a fenced producer, a strange generation, no group",
        topic(),
        begun(),
        offsets_added(),
        ask("TxnOffsetCommit", **offsets(0, producer_epoch=9)),
        ask("TxnOffsetCommit", **offsets(0, generation_id_or_member_epoch=3, member_id="m")),
        ask("TxnOffsetCommit", **offsets(0, group_id="")),
    ),
    scenario(
        "WriteTxnMarkers",
        "by epochs that go up and down",
        topic(),
        # Of partitions that it does not have, Apache Kafka does not answer at all.
        ask("WriteTxnMarkers", markers=[marker(90_001, 0)]),
        ask("WriteTxnMarkers", markers=[marker(90_001, 0, epoch=3)]),
        ask("WriteTxnMarkers", markers=[marker(90_001, 0, epoch=1)]),
    ),
    scenario(
        "DescribeTransactions",
        "unknown and empty ids",
        coordinator(),
        ask("DescribeTransactions", transactional_ids=["$none", ""]),
    ),
    scenario(
        "ListTransactions",
        "filters",
        begun(),
        ask("ListTransactions", producer_id_filters=[77_777]),
        ask("ListTransactions", producer_id_filters=["@pid"], state_filters=["Empty", "Odd"]),
    ),
]
