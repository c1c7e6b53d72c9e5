"""Apache's admin tools, which reach nearly every admin API."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.java.conftest import Tool
from compat_tests.recipes import eventually, hanging_transaction, make_topic


def test_topics_are_created_listed_described_grown_and_deleted(tool: Tool, topic: str) -> None:
    create = ("--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=1000")
    assert f"Created topic {topic}" in tool("topics", *create).checked().out
    assert topic in tool("topics", "--list").checked().out.splitlines()
    described = tool("topics", "--describe", "--topic", topic).checked().out
    assert "PartitionCount: 2" in described
    assert "retention.ms=1000" in described
    tool("topics", "--alter", "--topic", topic, "--partitions", "4").checked()
    assert "PartitionCount: 4" in tool("topics", "--describe", "--topic", topic).checked().out
    again = tool("topics", *create)
    assert (again.status, "already exists" in again.out) == (1, True)
    tool("topics", "--delete", "--topic", topic).checked()
    eventually(lambda: topic not in tool("topics", "--list").out.splitlines(), what="the topic is gone")


def test_a_bad_topic_is_refused_with_a_reason(tool: Tool, topic: str) -> None:
    rejected = tool("topics", "--create", "--topic", topic, "--replication-factor", "3")
    assert rejected.status == 1
    assert "Unable to replicate the partition 3 time(s)" in rejected.out
    rejected = tool("topics", "--create", "--topic", topic, "--config", "cleanup.policy=burn")
    assert rejected.status == 1
    assert "Invalid value burn for configuration cleanup.policy" in rejected.out


def test_configs_of_a_topic_are_set_described_and_removed(tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool("configs", *entity, "--alter", "--add-config", "retention.ms=1234").checked()
    eventually(
        lambda: "retention.ms=1234" in tool("configs", *entity, "--describe").out, what="the setting is described"
    )
    tool("configs", *entity, "--alter", "--delete-config", "retention.ms").checked()
    eventually(lambda: "1234" not in tool("configs", *entity, "--describe").out, what="the setting is gone")
    assert "min.insync.replicas=1" in tool("configs", *entity, "--describe", "--all").checked().out


def test_configs_of_a_broker_are_set_described_and_removed(tool: Tool) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", "0")
    tool("configs", *entity, "--alter", "--add-config", "log.cleaner.threads=2").checked()
    eventually(
        lambda: "log.cleaner.threads=2" in tool("configs", *entity, "--describe").out, what="the setting is described"
    )
    tool("configs", *entity, "--alter", "--delete-config", "log.cleaner.threads").checked()
    rejected = tool("configs", *entity, "--alter", "--add-config", "node.id=5")
    assert "Cannot update these configs dynamically" in rejected.out + rejected.err
    assert "num.partitions=4" in tool("configs", *entity, "--describe", "--all").checked().out


def test_configs_of_groups_and_client_metrics_are_kept(tool: Tool, group: str) -> None:
    entity = ("--entity-type", "groups", "--entity-name", group)
    tool("configs", *entity, "--alter", "--add-config", "consumer.session.timeout.ms=46000").checked()
    eventually(lambda: "46000" in tool("configs", *entity, "--describe").out, what="the setting is described")
    tool("client_metrics", "--alter", "--name", group, "--interval", "30000").checked()
    eventually(lambda: group in tool("client_metrics", "--list").out, what="the subscription is listed")
    assert "interval.ms=30000" in tool("client_metrics", "--describe", "--name", group).checked().out


@pytest.mark.parametrize(
    ("entity", "quota"),
    [
        (("--entity-type", "users", "--entity-name", "quota-alice"), "producer_byte_rate=1.048576E9"),
        (("--entity-type", "clients", "--entity-name", "quota-app"), "request_percentage=2000000.5"),
        (("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "quota-app"),
         "controller_mutation_rate=1000000.5"),
        (("--entity-type", "users", "--entity-name", "quota-alice", "--entity-type", "clients", "--entity-default"),
         "consumer_byte_rate=1.0E9"),
        (("--entity-type", "ips", "--entity-name", "192.0.2.1"), "connection_creation_rate=1000000.0"),
        (("--entity-type", "ips", "--entity-default"), "connection_creation_rate=1000001.0"),
    ],
    ids=["user", "client", "default user and client", "user and default client", "ip", "default ip"],
)  # fmt: skip
def test_quotas_are_set_described_and_removed(tool: Tool, entity: tuple[str, ...], quota: str) -> None:
    key, _, value = quota.partition("=")
    tool("configs", *entity, "--alter", "--add-config", f"{key}={float(value)}").checked()
    eventually(lambda: quota in tool("configs", *entity, "--describe").out, what="the quota is described")
    tool("configs", *entity, "--alter", "--delete-config", key).checked()
    eventually(lambda: quota not in tool("configs", *entity, "--describe").out, what="the quota is gone")
    rejected = tool("configs", *entity, "--alter", "--add-config", f"{key}=-1")
    assert f"Quota {key} must be greater than 0" in rejected.out + rejected.err


def test_scram_users_are_set_described_and_removed(tool: Tool, unique: Callable[[str], str]) -> None:
    user = ("--entity-type", "users", "--entity-name", unique("user"))
    tool("configs", "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=of-the-user]").checked()
    assert "SCRAM-SHA-256=iterations=8192" in tool("configs", "--describe", *user).checked().out
    tool("configs", "--alter", *user, "--delete-config", "SCRAM-SHA-256").checked()
    assert "SCRAM" not in tool("configs", "--describe", *user).checked().out


def test_access_rules_need_an_authorizer(tool: Tool, topic: str) -> None:
    rule = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", topic)
    for change in (("--add", *rule), ("--remove", "--force", *rule), ("--list",)):
        assert "No Authorizer is configured" in tool("acls", *change).out


def test_a_group_is_described_reset_and_deleted(tool: Tool, bootstrap: str, topic: str, group: str) -> None:
    make_topic(bootstrap, topic)
    tool("console_producer", "--topic", topic, stdin="a\nb\nc\n").checked()
    tool("console_consumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3").checked()
    assert group in tool("groups", "--list").checked().out.splitlines()
    assert group in tool("all_groups", "--list").checked().out
    assert "Empty" in tool("groups", "--list", "--state").checked().out
    described = tool("groups", "--describe", "--group", group).checked().out
    assert described.splitlines()[-1].split()[:5] == [group, topic, "0", "-", "3"] or " 3 " in described
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "1", "--execute")
    assert " 1" in tool("groups", *reset).checked().out
    tool("groups", "--delete-offsets", "--group", group, "--topic", topic).checked()
    assert f"Deletion of requested consumer groups ('{group}') was successful." in (
        tool("groups", "--delete", "--group", group).checked().out
    )


def test_members_of_a_group_are_shown(tool: Tool, bootstrap: str, topic: str, group: str) -> None:
    make_topic(bootstrap, topic)
    tool("console_consumer", "--topic", topic, "--group", group, "--timeout-ms", "1500").checked()
    for option in ("--state", "--members", "--offsets"):
        tool("groups", "--describe", "--group", group, option).checked()
    assert tool("groups", "--describe", "--group", f"{group}-none").out != ""


def test_offsets_are_found_by_every_kind_of_time(tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    tool("console_producer", "--topic", topic, stdin="a\nb\nc\n").checked()
    found = {
        time: tool("offsets", "--topic", topic, "--time", time).checked().out.strip().removeprefix(f"{topic}:0:")
        for time in ("earliest", "latest", "max-timestamp", "earliest-local", "latest-tiered", "0")
    }
    assert found["max-timestamp"] in ("0", "1", "2")
    assert {time: offset for time, offset in found.items() if time != "max-timestamp"} == {
        "earliest": "0", "latest": "3", "earliest-local": "0", "latest-tiered": "", "0": "0",
    }  # fmt: skip


def test_records_are_deleted(tool: Tool, bootstrap: str, topic: str, tmp_path: Path) -> None:
    make_topic(bootstrap, topic)
    tool("console_producer", "--topic", topic, stdin="a\nb\nc\n").checked()
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 2}], "version": 1}))
    reported = tool("delete_records", "--offset-json-file", str(wanted)).checked()
    assert f"partition: {topic}-0\tlow_watermark: 2" in reported.out


def test_log_directories_are_described(tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    reported = tool("log_dirs", "--describe", "--topic-list", topic).checked().out
    found = json.loads(next(line for line in reported.splitlines() if line.startswith("{")))
    (broker,) = found["brokers"]
    (directory,) = broker["logDirs"]
    assert [one["partition"] for one in directory["partitions"]] == [f"{topic}-0"]


def test_cluster_is_described(tool: Tool, bootstrap: str) -> None:
    assert "Cluster ID: " in tool("cluster", "cluster-id", "--bootstrap-server", bootstrap).checked().out
    assert "127.0.0.1" in tool("cluster", "list-endpoints", "--bootstrap-server", bootstrap).checked().out
    rejected = tool("cluster", "unregister", "--bootstrap-server", bootstrap, "--id", "77")
    assert "77" in rejected.out + rejected.err


def test_features_are_described_and_an_impossible_upgrade_is_refused(tool: Tool) -> None:
    assert "Feature: metadata.version" in tool("features", "describe").checked().out
    rejected = tool("features", "upgrade", "--feature", "metadata.version=9999")
    assert rejected.status == 1


def test_the_quorum_is_described(tool: Tool) -> None:
    status = tool("quorum", "describe", "--status").checked().out
    assert "LeaderId:" in status
    assert "Leader" in tool("quorum", "describe", "--replication").checked().out


def test_versions_of_apis_are_listed(tool: Tool) -> None:
    reported = tool("versions").checked().out
    assert "Produce(0): 0 to 13" in reported
    assert "Fetch(1): 4 to 18" in reported


def test_unneeded_election_returns_election_not_needed(tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    settings = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "Valid replica already elected" in tool("elections", *settings).checked().out
    tool("elections", "--election-type", "preferred", "--all-topic-partitions").checked()


def test_a_reassignment_to_where_the_partition_is_completes(
    tool: Tool, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic)
    plan = tmp_path / "plan.json"
    part = {"topic": topic, "partition": 0, "replicas": [0], "log_dirs": ["any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [part]}))
    assert "Successfully started" in tool("reassign", "--reassignment-json-file", str(plan), "--execute").checked().out
    assert "is completed" in tool("reassign", "--reassignment-json-file", str(plan), "--verify").checked().out
    assert "No partition reassignments found" in tool("reassign", "--list").checked().out


def test_transactions_are_listed_described_and_a_hanging_one_is_aborted(tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    load = ("--topic", topic, "--num-records", "20", "--record-size", "10", "--throughput", "-1")
    tool("producer_performance", *load, "--transactional-id", topic).checked()
    assert topic in tool("transactions", "list").checked().out
    assert "CompleteCommit" in tool("transactions", "describe", "--transactional-id", topic).checked().out
    read = ("--topic", topic, "--from-beginning", "--max-messages", "20", "--isolation-level", "read_committed")
    assert tool("console_consumer", *read).checked().out.count("\n") == 20
    with hanging_transaction(bootstrap, topic, "hanging-" + topic) as start_offset:
        abort = ("abort", "--topic", topic, "--partition", "0", "--start-offset", str(start_offset))
        tool("transactions", *abort).checked()
    described = tool("transactions", "describe-producers", "--topic", topic, "--partition", "0").checked().out
    assert all(line.split()[-1] == "None" for line in described.splitlines()[1:])


def test_producers_of_a_partition_are_described(tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    tool("console_producer", "--topic", topic, stdin="a\n").checked()
    reported = tool("transactions", "describe-producers", "--topic", topic, "--partition", "0").checked().out
    assert "ProducerId" in reported
    assert len(reported.splitlines()) == 2
