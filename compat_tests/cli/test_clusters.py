"""`odradek config`, `odradek cluster describe|quorum|features|log-dirs` and `odradek txn` on both clusters."""

from __future__ import annotations

from confluent_kafka import Producer

from compat_tests.cli.commands import Run, odradek_command


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
    assert rejected.status == 1 and "abort it by its id" in rejected.err
    assert run("txn", "abort", group, "--dry-run").out == f"would be aborted: {group}\n"
    assert run("txn", "describe", group, "--output", "json").json[0]["state"] == "Ongoing"
    assert run("txn", "abort", group).status == 0
    run("produce", topic, stdin="after\n")
    assert run("consume", topic, "--from-beginning").out == "after\n"
    assert run("txn", "abort", group).status == 1
    assert run("txn", "describe", f"{group}-absent").status == 3
    assert run("txn", "abort").status == 2


def test_security_of_a_command_that_no_broker_answers_is_explained_once() -> None:
    done = odradek_command("cluster", "quorum", "-b", "127.0.0.1:1")
    assert done.status == 4 and done.err.count("\n") == 1
