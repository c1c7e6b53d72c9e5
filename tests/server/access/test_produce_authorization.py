"""Topics that a client may write to by Produce: decided by the rules, and kept until they change or decisions are logged."""

from __future__ import annotations

import logging

import pytest
from odradek.metadata.acls import Operation, PatternType, Permission, ResourceType
from odradek.metadata.image import AclImage
from odradek.protocol.internal.cluster_metadata import TopicRecord
from odradek.protocol.messages.produce import ProduceRequest, TopicProduceData
from odradek.server.access.authorization.authorization import CLASS_KEY, STANDARD_CLASS, Authorization
from odradek.server.network.call import Call
from odradek.server.produce.produce_authorization import denied_topics, is_write_cached_as_allowed

from tests.server.harness.images import image_with
from tests.server.harness.noted_audit import NotedAudit
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection

ALICE, HOST = "User:alice", "/10.0.0.1"
IDS = {name: name.encode().ljust(16, b".") for name in ("mine", "also-mine", "foreign", "unknown")}


def rule(name: str, permission: Permission = Permission.ALLOW) -> AclImage:
    return AclImage(ResourceType.TOPIC, name, PatternType.LITERAL, ALICE, "*", Operation.WRITE, permission)


class Producer:
    """A connection of alice, who may write to some topics, at a node with an audit log."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.audit = NotedAudit()
        self.authorization = Authorization({CLASS_KEY: STANDARD_CLASS}, self.audit)
        connection = NotedConnection()
        connection.principal, connection.client_host = ALICE, HOST
        self.calls = NotedCalls(connection)
        self.rules: dict[bytes, AclImage] = {}
        self.change(rule("mine"), rule("also-mine"))
        self.image = image_with(*(TopicRecord(name, id_) for name, id_ in IDS.items() if name != "unknown"))

    def logged(self) -> list[tuple[int, str]]:
        """Returns the level and the topic of each line of the audit log."""
        return [(line["level"], line["resource_name"]) for line in self.audit.lines]

    def change(self, *rules: AclImage) -> None:
        before, self.rules = self.rules, {one.resource_name.encode(): one for one in rules}
        gone: dict[bytes, AclImage | None] = dict.fromkeys(before)
        for _ in self.authorization.steps(before, {**gone, **self.rules}, is_first=not before):
            pass

    def call(self, *names: str) -> Call[ProduceRequest]:
        by_id = self.version >= 13
        topics = [
            TopicProduceData(**({"topic_id": IDS[name]} if by_id else {"name": name}), partition_data=[])
            for name in names
        ]
        return self.calls.call(ProduceRequest(None, 1, 1000, topics), self.version)

    def is_cached(self, *names: str) -> bool:
        return is_write_cached_as_allowed(self.authorization, self.call(*names))

    def denied(self, *names: str) -> list[str]:
        call = self.call(*names)
        found = denied_topics(self.authorization.session(call), call, self.image)
        return sorted(name for name in names if (IDS[name] if self.version >= 13 else name) in found)


@pytest.mark.parametrize("version", [12, 13])
def test_denied_topics_are_those_without_a_rule_and_an_unknown_id_is_not_among_them(version: int) -> None:
    producer = Producer(version)
    assert producer.denied("mine", "foreign", "also-mine") == ["foreign"]
    assert producer.logged() == [(logging.INFO, "foreign")]
    assert producer.denied("unknown") == (["unknown"] if version < 13 else [])
    assert producer.denied("mine") == []


@pytest.mark.parametrize("version", [12, 13])
def test_topics_that_were_allowed_are_not_decided_again(version: int) -> None:
    producer = Producer(version)
    assert not producer.is_cached("mine"), "the connection has no session"
    producer.denied("mine", "foreign", "unknown")
    allowed = producer.authorization.allowed
    assert producer.is_cached("mine") and not producer.is_cached("also-mine")
    assert not producer.is_cached("foreign") and not producer.is_cached("unknown")
    assert not producer.is_cached("mine", "foreign") and not producer.is_cached("also-mine", "mine")
    producer.denied("also-mine")
    assert producer.is_cached("mine", "also-mine")
    assert producer.authorization.allowed == allowed + 4, "each topic counts as a decision"


@pytest.mark.parametrize("version", [12, 13])
def test_change_of_the_rules_has_topics_decided_again(version: int) -> None:
    producer = Producer(version)
    producer.denied("mine", "also-mine")
    producer.change(rule("also-mine"))
    assert not producer.is_cached("mine") and not producer.is_cached("also-mine")
    assert producer.denied("mine", "also-mine") == ["mine"]
    assert producer.is_cached("also-mine") and not producer.is_cached("mine")


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("before", [0, 1, 62, 63, 64])
def test_audit_log_of_allowed_decisions_begins_after_64_decisions_at_most(count: int, before: int) -> None:
    producer = Producer(12)
    names = ("mine", "also-mine")[:count]
    producer.denied("mine", "also-mine")
    producer.authorization.allowed = before
    assert producer.is_cached(*names)
    producer.audit.levels.add(logging.DEBUG)
    decided = 0
    while producer.is_cached(*names):
        decided += count
        assert decided <= 64, "none of them is in the log"
    assert not producer.is_cached(*names), "as long as they are logged each is decided"
    assert (
        producer.denied(*names) == [] and producer.logged() == [(logging.DEBUG, name) for name in sorted(names)][::-1]
    )
