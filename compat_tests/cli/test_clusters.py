"""`odradek config`, `odradek cluster describe|quorum|features|log-dirs` and `odradek txn` on both clusters."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from odradek.admin.connection import Connection
from odradek.admin.open_transactions import open_transactions
from odradek.admin.transactions import describe_transactions
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.batches import leader_of
from compat_tests.cli.commands import PRODUCE_WITHOUT_VERIFICATION, Run, odradek_command
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient


def brokers(cluster: str) -> int:
    return len(cluster.split(","))


def test_configs_are_shown_with_their_sources(run: Run, topic: str) -> None:
    run("topic", "create", topic, "-c", "retention.ms=1000")
    found = {one["key"]: one for one in run("config", "get", "topic", topic, "--output", "jsonl").lines}
    assert found["retention.ms"]["value"] == "1000" and found["retention.ms"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    every = run("config", "get", "topic", topic, "--all", "--output", "json").json
    assert len(every) > 25
    (one,) = run("config", "get", "topic", topic, "segment.bytes", "--output", "json").json
    assert one["source"] == "DEFAULT_CONFIG"
    assert run("config", "get", "topic", topic, "no.such").status == 3
    assert run("config", "get", "topic", f"{topic}-absent").status == 3
    assert run("config", "get", "broker", "abc").status == 2


def test_configs_are_set_appended_deleted_and_compared(run: Run, topic: str, cluster: str) -> None:
    run("topic", "create", topic, f"{topic}-other")
    change = ("config", "set", "topic", topic, "retention.ms=5", "--append", "cleanup.policy=compact")
    assert "would be set" in run(*change, "--dry-run").out
    assert run("config", "diff", "topic", topic, f"{topic}-other").status == 0
    assert run(*change).status == 0
    done = run("config", "diff", "topic", topic, f"{topic}-other", "--output", "json")
    assert done.status == 1
    assert {one["key"]: one["left"] for one in done.json} == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    same = run("config", "diff", "topic", topic, "--other-bootstrap-server", cluster, "--output", "json")
    assert (same.status, same.json) == (0, [])
    assert (
        run("config", "set", "topic", topic, "--delete", "retention.ms", "--subtract", "cleanup.policy=compact").status
        == 0
    )
    assert run("config", "diff", "topic", topic, f"{topic}-other").status == 0
    bad = run("config", "set", "topic", topic, "retention.ms=long", "--dry-run")
    assert bad.status == 1 and "retention.ms" in bad.err
    assert run("config", "set", "topic", topic).status == 2


def test_configs_of_all_brokers_are_set_and_deleted(run: Run) -> None:
    def of_all() -> dict[str, tuple[str, str]]:
        shown = run("config", "get", "broker", "default", "--output", "json")
        assert shown.status == 0, shown.err
        return {one["key"]: (one["value"], one["source"]) for one in shown.json}

    change = ("config", "set", "broker", "default", "log.retention.bytes=123456789")
    assert "would be set" in run(*change, "--dry-run").out and "log.retention.bytes" not in of_all()
    try:
        assert run(*change).status == 0
        wanted = ("123456789", "DYNAMIC_DEFAULT_BROKER_CONFIG")
        eventually(lambda: of_all().get("log.retention.bytes") == wanted, what="the config is set")
        brokers_of = run("cluster", "describe", "--output", "json").json[0]["brokers"]
        for broker in brokers_of:
            words = ("config", "get", "broker", str(broker["broker"]), "log.retention.bytes", "--output", "json")
            eventually(lambda words=words: run(*words).json[0]["value"] == "123456789", what="each broker has it")
    finally:
        assert run("config", "set", "broker", "default", "--delete", "log.retention.bytes").status == 0
    eventually(lambda: "log.retention.bytes" not in of_all(), what="the config is gone")
    bad = run("config", "set", "broker", "default", "log.retention.bytes=many")
    assert bad.status == 1 and "log.retention.bytes" in bad.err, bad.err


def test_group_configs_are_set(run: Run, group: str) -> None:
    assert run("config", "set", "group", group, "consumer.session.timeout.ms=50000").status == 0
    (one,) = run("config", "get", "group", group, "consumer.session.timeout.ms", "--output", "json").json
    assert one["value"] == "50000"


def test_cluster_is_described(run: Run, cluster: str, topic: str) -> None:
    run("topic", "create", topic, "--partitions", "3")
    (found,) = run("cluster", "describe", "--output", "json").json
    assert len(found["brokers"]) == brokers(cluster)
    assert sum(one["leads"] for one in found["brokers"]) == found["partitions"] - found["without_leader"]
    assert not any(one["fenced"] for one in found["brokers"])
    (quorum,) = run("cluster", "quorum", "--output", "json").json
    assert [one["role"] for one in quorum["replicas"]].count("leader") == 1
    assert {one["role"] for one in quorum["replicas"]} <= {"leader", "voter", "observer"}
    features = {one["feature"]: one for one in run("cluster", "features", "--output", "jsonl").lines}
    level = features["metadata.version"]
    assert level["min"] <= level["level"] <= level["max"]
    directories = run("cluster", "log-dirs", "--output", "jsonl").lines
    assert len(directories) == brokers(cluster) and all(one["online"] for one in directories)
    replicas = run("cluster", "log-dirs", "--topic", topic, "--output", "jsonl").lines
    assert {one["partition"] for one in replicas} == {0, 1, 2}


def test_open_transaction_is_described_and_aborted(run: Run, cluster: str, topic: str, group: str) -> None:
    run("topic", "create", topic, "--partitions", "1")
    producer = Producer({"bootstrap.servers": cluster, "transactional.id": group, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    listed = {
        one["transactional_id"]: one for one in run("txn", "list", "--state", "ongoing", "--output", "jsonl").lines
    }
    assert group in listed
    (described,) = run("txn", "describe", group, "--output", "json").json
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}-0"])
    (open_one,) = run("txn", "producers", topic, "--output", "json").json
    assert (open_one["start_offset"], open_one["hangs"], open_one["transactional_id"]) == (0, False, group)
    assert run("txn", "list", "--hanging", "--topic", topic, "--older-than-ms", "0", "--output", "json").json == []
    place = ("--topic", topic, "--partition", "0", "--producer-id", str(open_one["producer_id"]))
    rejected = run("txn", "abort", *place)
    assert rejected.status == 1 and "abort it by its transactional id" in rejected.err
    assert run("txn", "abort", group, "--dry-run").out == f"would be aborted: {group}\n"
    assert run("txn", "describe", group, "--output", "json").json[0]["state"] == "Ongoing"
    assert run("txn", "abort", group).status == 0
    run("produce", topic, "--create", stdin="after\n")
    assert run("consume", topic, "--from-beginning").out == "after\n"
    assert run("txn", "abort", group).status == 1
    assert run("txn", "describe", f"{group}-absent").status == 3
    assert run("txn", "abort").status == 2


def test_transaction_of_a_coordinator_that_is_not_asked_does_not_hang(three: str, topic: str, group: str) -> None:
    odradek_command("topic", "create", topic, "--partitions", "3", "-b", three)
    producer = Producer({"bootstrap.servers": three, "transactional.id": group, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce(topic, b"open", partition=partition)
    producer.flush(30)
    with Connection({"bootstrap.servers": three}).admin() as admin:
        coordinator = describe_transactions(admin, [group])[group].coordinator_id
        assert {one["hangs"] for one in open_transactions(admin, [topic])} == {False}
        others = open_transactions(admin, [topic], without={coordinator})
        assert others and {one["hangs"] for one in others} == {None}
    producer.abort_transaction(30)


def test_hanging_transaction_is_listed_and_aborted(run: Run, cluster: str, topic: str, unverified: None) -> None:
    """Producers before KIP-890 could leave records of an ended transaction; single requests write such records here."""
    run("topic", "create", topic, "--partitions", "1")
    hour_ago, producer_id = int(time.time() * 1000) - 3_600_000, 777_000
    batch = encode_batch(
        [Record(0, hour_ago, None, b"lost")],
        producer_id=producer_id,
        producer_epoch=1,
        base_sequence=0,
        transactional=True,
    )
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]

    def written() -> bool:
        with WireClient(leader_of(cluster, topic, 0)) as client:
            response = client.call(ProduceRequest("gone", -1, 10_000, data), PRODUCE_WITHOUT_VERIFICATION)
        return bool(response.responses[0].partition_responses[0].error_code == 0)

    eventually(written, what="the batch is written")
    run("produce", topic, "--create", stdin="after\n")
    listed = ("txn", "list", "--hanging", "--topic", topic, "--output", "json")
    (found,) = run(*listed).json
    assert (found["partition"], found["producer_id"], found["start_offset"]) == (0, producer_id, 0)
    assert found["age_ms"] >= 3_600_000
    assert run(*listed, "--older-than-ms", str(24 * 3_600_000)).json == []
    (state,) = [one for one in run("txn", "producers", topic, "--output", "json").json if one["start_offset"] == 0]
    assert state["hangs"]
    assert run("consume", topic, "--from-beginning").out == ""  # later committed records cannot be read
    place = ("txn", "abort", "--topic", topic, "--partition", "0", "--producer-id", str(producer_id))
    assert "would be aborted" in run(*place, "--dry-run").out and run(*listed).json
    assert run(*place).status == 0
    assert run(*listed).json == []
    eventually(lambda: run("consume", topic, "--from-beginning").out == "after\n", what="the record behind it is read")
    assert run(*place).status == 3


@pytest.fixture
def unverified(run: Run) -> Iterator[None]:
    """Lets brokers accept transactional records without a coordinator's transaction, as brokers before KIP-890 do."""
    key = "transaction.partition.verification.enable"
    assert run("config", "set", "broker", "default", f"{key}=false").status == 0
    for broker in run("cluster", "describe", "--output", "json").json[0]["brokers"]:
        words = ("config", "get", "broker", str(broker["broker"]), key, "--output", "json")
        eventually(lambda words=words: run(*words).json[0]["value"] == "false", what="each broker has it")
    yield
    assert run("config", "set", "broker", "default", "--delete", key).status == 0


def test_security_of_a_command_that_no_broker_answers_is_explained_once() -> None:
    done = odradek_command("cluster", "quorum", "-b", "127.0.0.1:1")
    assert done.status == 4 and done.err.count("\n") == 1
