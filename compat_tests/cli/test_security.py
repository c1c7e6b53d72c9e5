"""`odradek acl`, `user` and `quota` on one broker with an authorizer: Odradek, and Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.broker_process import BrokerProcess
from compat_tests.cli.caught_up import await_brokers
from compat_tests.cli.commands import Done, odradek_command
from compat_tests.cli.committing import commit
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka
from compat_tests.recipes import DEADLINE_S, eventually

SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    # Commands run in this process: a producer that is not collected yet would create a topic again that a test deletes.
    "auto.create.topics.enable": "false",
}


@pytest.fixture(scope="module", params=["odradek", "apache"])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("secured")
    if request.param == "apache":
        request.getfixturevalue("java_tools")
    made: BrokerProcess = (OdradekProcess if request.param == "odradek" else ApacheKafka)(directory, SECURED)
    with made as broker:
        yield broker.bootstrap


def on(secured: str, *words: str, stdin: str = "") -> Done:
    return odradek_command(*words, "-b", secured, stdin=stdin)


def test_rules_are_created_listed_and_deleted(secured: str, request: pytest.FixtureRequest) -> None:
    if not on(secured, "acl", "list").status or request.node.callspec.id == "apache":
        _use_rules(secured)
        return
    # A broker without an authorizer rejects all requests about ACLs, and each command reports it in one line.
    for words in (("list",), ("create", "--allow", "x", "--operation", "read", "--topic", "t"), ("delete", "--all")):
        done = on(secured, "acl", *words)
        assert done.status == 1 and done.err.count("\n") == 1 and "uthorizer" in done.err, done


def _use_rules(secured: str) -> None:
    rule = (
        "acl",
        "create",
        "--allow",
        "alice",
        "--operation",
        "read",
        "--operation",
        "write",
        "--topic",
        "orders",
        "--prefixed",
    )
    assert "would be created" in on(secured, *rule, "--dry-run").out
    assert on(secured, "acl", "list", "--output", "json").json == []
    made = on(secured, *rule)
    assert (made.status, made.out.count("created: allow User:alice")) == (0, 2), made.err
    found = on(secured, "acl", "list", "--principal", "alice", "--output", "json").json
    assert [(one["operation"], one["pattern"], one["host"]) for one in found] == [
        ("read", "prefixed", "*"),
        ("write", "prefixed", "*"),
    ]
    gone = ("acl", "delete", "--principal", "alice", "--operation", "write")
    assert on(secured, *gone, "--dry-run").out.startswith("would be deleted: allow User:alice write topic orders")
    assert on(secured, *gone).status == 0
    assert len(on(secured, "acl", "list", "--output", "json").json) == 1
    assert on(secured, "acl", "delete", "--all").status == 0
    assert on(secured, "acl", "list", "--output", "json").json == []
    assert on(secured, "acl", "delete").status == 2
    assert "read, write" in on(secured, *rule[:4], "--operation", "fly", "--cluster").err


def test_users_are_set_listed_and_deleted_without_showing_passwords(secured: str) -> None:
    made = on(secured, "user", "set", "bob", "--mechanism", "SCRAM-SHA-256", stdin="hunter2\n")
    assert made.status == 0 and "hunter2" not in made.out + made.err, made
    (found,) = on(secured, "user", "list", "--output", "json").json
    assert found == {"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 8192}
    assert on(secured, "user", "delete", "bob", "--dry-run").status == 0
    assert on(secured, "user", "delete", "bob").out == "deleted: bob SCRAM-SHA-256\n"
    assert on(secured, "user", "list", "--output", "json").json == []
    assert on(secured, "user", "delete", "bob").status == 3
    assert on(secured, "user", "set", "bob", stdin="").status == 2


def test_quotas_are_set_listed_and_deleted(secured: str) -> None:
    change = ("quota", "set", "producer_byte_rate=1024", "--user", "carol", "--client-id", "<default>")
    assert "would be set" in on(secured, *change, "--dry-run").out
    assert on(secured, "quota", "list", "--output", "json").json == []
    assert on(secured, *change).status == 0
    (found,) = on(secured, "quota", "list", "--user", "carol", "--output", "json").json
    assert found == {"entity": "user=carol client-id=<default>", "key": "producer_byte_rate", "value": 1024.0}
    done = on(secured, "quota", "set", "--delete", "producer_byte_rate", "--user", "carol", "--client-id", "<default>")
    assert done.status == 0
    assert on(secured, "quota", "list", "--output", "json").json == []
    bad = on(secured, "quota", "set", "no_such_key=1", "--user", "carol")
    assert bad.status == 1 and bad.err.count("\n") == 1
    assert on(secured, "quota", "set", "producer_byte_rate=1").status == 2


def test_settings_and_share_groups_are_backed_up_and_restored(secured: str, tmp_path: Path) -> None:
    def rows(*words: str) -> list[dict[str, Any]]:
        done = on(secured, *words, "--output", "json")
        return list(done.json) if done.status == 0 else [{"error": done.err}]

    def changed(*words: str, stdin: str = "") -> None:
        done = on(secured, *words, stdin=stdin)
        assert done.status == 0, done.err

    asked = {
        "rules": ("acl", "list"),
        "quotas": ("quota", "list"),
        "brokers": ("config", "get", "broker", "default"),
        "group": ("config", "get", "group", "saved-shares"),
        "client metrics": ("config", "get", "client-metrics", "saved"),
        "shares": ("group", "lag", "saved-shares"),
    }
    changed("topic", "create", "saved", "--partitions", "2")
    changed("produce", "saved", "--create", "-p", "0", stdin="1\n2\n3\n")
    changed("acl", "create", "--allow", "ann", "--operation", "read", "--topic", "sav", "--prefixed")
    changed("acl", "create", "--deny", "bob", "--operation", "alter", "--cluster", "--host", "10.0.0.1")
    changed("quota", "set", "producer_byte_rate=1000", "--user", "ann", "--client-id", "<default>")
    changed("config", "set", "broker", "default", "log.retention.ms=3600001")
    changed("config", "set", "group", "saved-shares", "share.auto.offset.reset=earliest")
    changed("config", "set", "client-metrics", "saved", "interval.ms=12345")
    changed("user", "set", "ann", stdin="secret\n")
    changed("group", "reset", "saved-shares", "--share", "--topic", "saved", "--to", "2")
    eventually(
        lambda: [one.get("committed") for one in rows(*asked["shares"])] == [2, 0], what="the share group begins"
    )
    commit(secured, "saved-texts", [TopicPartition("saved", 0, 1, "position 7")])
    before = {name: rows(*words) for name, words in asked.items()}
    assert [len(before[name]) for name in ("rules", "quotas", "group")] == [2, 1, 1]

    place = str(tmp_path / "backup")
    (made,) = rows("backup", place, "--topic", "saved", "--group", "saved-.*")
    # Two ACLs, a quota, a user, and configs of brokers, a group and client metrics.
    assert (made["groups"], made["settings"]) == (2, 7), made
    changed("topic", "delete", "saved", "--yes")
    changed("group", "delete", "saved-shares", "saved-texts", "--yes")
    changed("acl", "delete", "--all", "--yes")
    changed("quota", "set", "-d", "producer_byte_rate", "--user", "ann", "--client-id", "<default>")
    changed("config", "set", "broker", "default", "-d", "log.retention.ms")
    changed("config", "set", "group", "saved-shares", "-d", "share.auto.offset.reset")
    changed("config", "set", "client-metrics", "saved", "-d", "interval.ms")

    eventually(lambda: "saved" not in on(secured, "topic", "list").out, what="the topic is gone")
    assert on(secured, "restore", place, "--topic", "saved", "--no-groups").status == 0
    assert rows("acl", "list") == rows("quota", "list") == []
    changed("topic", "delete", "saved", "--yes")
    eventually(lambda: "saved" not in on(secured, "topic", "list").out, what="the topic is gone")
    done = on(secured, "restore", place)
    assert done.status == 0 and "odradek user set NAME" in done.err and "ann" in done.err, done.err
    await_brokers(secured)
    for name, words in asked.items():
        eventually(lambda words=words, name=name: rows(*words) == before[name], what=f"{name} are restored")
    assert committed_text(secured) == "position 7"
    changed("acl", "delete", "--all", "--yes")


def committed_text(bootstrap: str) -> str | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "saved-texts"})
    try:
        (found,) = consumer.committed([TopicPartition("saved", 0)], timeout=DEADLINE_S)
        text: str | None = found.metadata
        return text
    finally:
        consumer.close()
