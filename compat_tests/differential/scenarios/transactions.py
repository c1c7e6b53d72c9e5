"""Transactions: InitProducerId with an id, AddPartitionsToTxn, EndTxn, and their effect on Produce and Fetch."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, batch, prepare, scenario
from ..setup_steps import fetched, produce, topic

COMMIT, ABORT = True, False
#: The last version of Produce before a batch adds its partition to the transaction (KIP-890).
EXPLICIT = 11


def init(name: Any = "$x", *, timeout: int = 600_000, **more: Any) -> dict[str, Any]:
    return {"transactional_id": name, "transaction_timeout_ms": timeout, **more}


def begun(name: str = "$x") -> list[Step]:
    """Starts a transactional producer: waits for its coordinator, and keeps its id and epoch."""
    known = {"pid": "producer_id", "epoch": "producer_epoch"}
    return [
        prepare("FindCoordinator", version=4, key_type=1, coordinator_keys=[name]),
        prepare("InitProducerId", version=4, **init(name), keep=known, until=lambda response: response.error_code == 0),
    ]


def add(
    *partitions: int, name: Any = "$x", pid: Any = "@pid", epoch: Any = "@epoch", where: str = "$t", **more: Any
) -> dict[str, Any]:
    topics = [{"name": where, "partitions": list(partitions)}]
    one = {"transactional_id": name, "producer_id": pid, "producer_epoch": epoch, "topics": topics, **more}
    return {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": pid,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": topics,
        "transactions": [one],
    }


def added(*partitions: int) -> Step:
    return prepare("AddPartitionsToTxn", version=3, **add(*partitions))


def sent(sequence: int, *values: bytes, **more: Any) -> dict[str, Any]:
    records = batch(*values, producer_id="@pid", producer_epoch="@epoch", base_sequence=sequence, transactional=True)
    return produce(records, transactional_id="$x", **more)


def wrote(sequence: int, *values: bytes) -> Step:
    """Writes records to a partition that is in the transaction."""
    return prepare("Produce", version=EXPLICIT, **sent(sequence, *values))


def end(result: bool, *, name: Any = "$x", pid: Any = "@pid", epoch: Any = "@epoch") -> dict[str, Any]:
    return {"transactional_id": name, "producer_id": pid, "producer_epoch": epoch, "committed": result}


def ended(result: bool) -> list[Step]:
    """Ends the transaction, and waits until its markers are written."""
    return [prepare("EndTxn", version=4, **end(result)), completed()]


def completed() -> Step:
    return prepare("DescribeTransactions", transactional_ids=["$x"], until=is_complete)


def is_complete(response: Any) -> bool:
    return str(response.transaction_states[0].transaction_state).startswith("Complete")


INIT = [
    scenario(
        "InitProducerId",
        "a transactional producer",
        begun("$other"),
        ask("InitProducerId", **init(), until=lambda a: a.error_code != 16),
    ),
    scenario(
        "InitProducerId",
        "the same name again has the next epoch",
        begun(),
        ask("InitProducerId", **init()),
        ask("InitProducerId", **init()),
    ),
    scenario(
        "InitProducerId",
        "time-outs that may not be",
        begun(),
        ask("InitProducerId", **init(timeout=0)),
        ask("InitProducerId", **init(timeout=-1)),
        ask("InitProducerId", **init(timeout=900_001)),
    ),
    scenario(
        "InitProducerId",
        "a producer that says who it was",
        begun(),
        ask("InitProducerId", **init(producer_id="@pid", producer_epoch="@epoch")),
        ask("InitProducerId", **init(producer_id="@pid", producer_epoch=9)),
        ask("InitProducerId", **init(producer_id=987_654, producer_epoch=0)),
        versions="3+",
    ),
    scenario(
        "InitProducerId",
        "one that begins again aborts what was going on",
        topic(),
        begun(),
        added(0),
        wrote(0, b"a"),
        prepare("InitProducerId", version=4, **init(), until=lambda a: a.error_code == 0),
        ask("InitProducerId", **init(), until=lambda a: a.error_code == 0),
        ask("DescribeTransactions", transactional_ids=["$x"]),
        fetched(isolation_level=1),
    ),
    scenario(
        "FindCoordinator",
        "of a transaction",
        prepare("FindCoordinator", version=4, key_type=1, coordinator_keys=["$x"]),
        ask("FindCoordinator", key="$x", key_type=1, coordinator_keys=["$x"]),
        versions="1+",
    ),
]
ADD = [
    scenario(
        "AddPartitionsToTxn",
        "partitions join",
        topic(partitions=2),
        begun(),
        ask("AddPartitionsToTxn", **add(0, 1)),
        ask("AddPartitionsToTxn", **add(0)),
        ask("DescribeTransactions", transactional_ids=["$x"]),
        versions="0-3",
    ),
    scenario(
        "AddPartitionsToTxn",
        "what is not there",
        topic(),
        begun(),
        ask("AddPartitionsToTxn", **add(0, where="$none")),
        ask("AddPartitionsToTxn", **add(0, 7)),
        versions="0-3",
    ),
    scenario(
        "AddPartitionsToTxn",
        "wrong producers",
        topic(),
        begun(),
        ask("AddPartitionsToTxn", **add(0, epoch=7)),
        ask("AddPartitionsToTxn", **add(0, pid=987_654)),
        ask("AddPartitionsToTxn", **add(0, name="$nobody")),
        ask("AddPartitionsToTxn", **add(0, name="")),
        versions="0-3",
    ),
    scenario(
        "AddPartitionsToTxn",
        "no partitions",
        begun(),
        ask(
            "AddPartitionsToTxn",
            v3_and_below_transactional_id="$x",
            v3_and_below_producer_id="@pid",
            v3_and_below_producer_epoch="@epoch",
            v3_and_below_topics=[],
        ),
        versions="0-3",
    ),
    scenario(
        "AddPartitionsToTxn",
        "brokers add and verify in batches",
        topic(partitions=2),
        begun(),
        ask("AddPartitionsToTxn", **add(0, verify_only=True)),
        ask("AddPartitionsToTxn", **add(0)),
        ask("AddPartitionsToTxn", **add(0, verify_only=True)),
        ask("AddPartitionsToTxn", **add(0, epoch=9, verify_only=True)),
        versions="4+",
    ),
]
END = [
    scenario(
        "EndTxn",
        "a commit",
        topic(),
        begun(),
        added(0),
        wrote(0, b"a"),
        ask("EndTxn", **end(COMMIT)),
        completed(),
        fetched(isolation_level=1),
    ),
    scenario(
        "EndTxn",
        "an abort",
        topic(),
        begun(),
        added(0),
        wrote(0, b"a"),
        ask("EndTxn", **end(ABORT)),
        completed(),
        fetched(isolation_level=1),
        fetched(isolation_level=0),
    ),
    scenario("EndTxn", "nothing to end", begun(), ask("EndTxn", **end(COMMIT)), ask("EndTxn", **end(ABORT))),
    scenario(
        "EndTxn",
        "the same end again and the other",
        topic(),
        begun(),
        added(0),
        wrote(0, b"a"),
        prepare("EndTxn", version=4, **end(COMMIT)),
        completed(),
        ask("EndTxn", **end(COMMIT)),
        ask("EndTxn", **end(ABORT)),
        versions="0-4",
    ),
    scenario(
        "EndTxn",
        "wrong producers",
        topic(),
        begun(),
        added(0),
        ask("EndTxn", **end(COMMIT, epoch=7)),
        ask("EndTxn", **end(COMMIT, pid=987_654)),
        ask("EndTxn", **end(COMMIT, name="$nobody")),
        ask("EndTxn", **end(COMMIT, name="")),
    ),
]
DATA = [
    scenario(
        "Produce",
        "a transaction's records before their partition joined",
        topic(),
        begun(),
        ask("Produce", **sent(0, b"a")),
        versions="3-11",
    ),
    scenario(
        "Produce",
        "a transaction's records bring their partition in",
        topic(),
        begun(),
        ask("Produce", **sent(0, b"a")),
        ask("Produce", **sent(1, b"b")),
        ask("DescribeTransactions", transactional_ids=["$x"]),
        ask("DescribeProducers", topics=[{"name": "$t", "partition_indexes": [0]}]),
        versions="12+",
    ),
    scenario(
        "Produce",
        "a transaction's records in a partition that joined",
        topic(),
        begun(),
        added(0),
        ask("Produce", **sent(0, b"a")),
        ask("Produce", **sent(0, b"a")),
        fetched(isolation_level=1),
        fetched(),
    ),
    scenario(
        "Produce",
        "records outside a transaction that is going on",
        topic(),
        begun(),
        added(0),
        wrote(0, b"a"),
        ask("Produce", **produce(batch(b"b", producer_id="@pid", producer_epoch="@epoch", base_sequence=1))),
    ),
    scenario(
        "Fetch",
        "aborted transactions are told to who reads committed",
        topic(),
        begun(),
        added(0),
        wrote(0, b"a"),
        ended(ABORT),
        added(0),
        wrote(1, b"b"),
        ended(COMMIT),
        added(0),
        wrote(2, b"c"),
        fetched(isolation_level=1),
        fetched(2, isolation_level=1),
        fetched(isolation_level=0),
    ),
    scenario(
        "ListOffsets",
        "the end of what is committed",
        topic(),
        begun(),
        added(0),
        wrote(0, b"a"),
        *(
            ask(
                "ListOffsets",
                replica_id=-1,
                isolation_level=level,
                topics=[{"name": "$t", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
            )
            for level in (0, 1)
        ),
        versions="2+",
    ),
]
SCENARIOS = [*INIT, *ADD, *END, *DATA]
