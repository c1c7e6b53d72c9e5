"""Apache Kafka and Odradek, with StandardAuthorizer and the same rules, give the same responses to a client.

Each request names resources under every kind of rule. Both brokers return the same error codes, hide the same resources
and report the same authorized operations. A run has some of the rules; with ODRADEK_AUTHORIZATION_MATRIX=full it has all.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from odradek.metadata.acls import Operation, ResourceType
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.create_acls import AclCreation
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from compat_tests.authorization import cluster_probes, probes
from compat_tests.authorization.harness import (
    ABSENT,
    DOOMED,
    EXISTING,
    STANDARD_AUTHORIZER,
    Harness,
    until,
)
from compat_tests.authorization.probes import Probe
from compat_tests.authorization.variants import (
    ALLOWED,
    CLIENT,
    CLUSTER,
    ELSEWHERE,
    SHORT,
    VARIANTS,
    Rule,
    name_of,
)
from compat_tests.broker_process import free_port
from compat_tests.fixtures import UNDER_TEST
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

pytestmark = pytest.mark.oracle

IS_FULL = os.environ.get("ODRADEK_AUTHORIZATION_MATRIX") == "full"
EXECUTED = tuple(VARIANTS) if IS_FULL else SHORT
_MOST_SHOWN = 40


class Both:
    """Both brokers, prepared alike."""

    def __init__(self, kafka: Harness, odradek: Harness) -> None:
        self.harnesses = (kafka, odradek)
        shared = kafka.versions.keys() & odradek.versions.keys()
        self.versions = {api: min(kafka.versions[api][1], odradek.versions[api][1]) for api in shared}
        self._threads = ThreadPoolExecutor(2)

    def each(self, function: str, *arguments: object) -> None:
        list(self._threads.map(lambda harness: getattr(harness, function)(*arguments), self.harnesses))

    def differences(self, executed: Sequence[Probe], kind: ResourceType, variant: str, mark: str) -> list[str]:
        """Returns a line for each difference between the responses."""
        name = name_of(kind, variant, mark)

        def responses(harness: Harness) -> list[dict[str, object]]:
            target = harness.target(None if kind is ResourceType.CLUSTER else kind, name)
            return [harness.respond(probe, target, self.versions) for probe in executed]

        theirs, ours = self._threads.map(responses, self.harnesses)
        return [
            f"{probe} | {variant} {mark} | {path}: {their.get(path, '(absent)')!r} but {our.get(path, '(absent)')!r}"
            for probe, their, our in zip(executed, theirs, ours, strict=True)
            for path in sorted(their.keys() | our.keys())
            if their.get(path) != our.get(path)
        ]


@pytest.fixture(scope="module")
def both(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    properties = {**UNDER_TEST, **STANDARD_AUTHORIZER}
    ours = {**properties, "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    with (
        ApacheKafka(tmp_path_factory.mktemp("kafka"), properties) as kafka,
        OdradekProcess(tmp_path_factory.mktemp("odradek"), ours) as odradek,
    ):
        harnesses = Harness(kafka.bootstrap), Harness(odradek.bootstrap)
        made = Both(*harnesses)
        made.each("prepare")
        yield made
        made.each("close")


def check(found: list[str]) -> None:
    shown = "\n".join(found[:_MOST_SHOWN])
    assert not found, f"{len(found)} differences, Apache Kafka's value first:\n{shown}"


def execute(both: Both, executed: Sequence[Probe], kind: ResourceType, mark: str = EXISTING) -> None:
    check([line for variant in EXECUTED for line in both.differences(executed, kind, variant, mark)])


def test_topics_are_authorized_alike(both: Both) -> None:
    execute(both, probes.ON_TOPICS, ResourceType.TOPIC)


def test_topics_that_are_absent_are_hidden_alike(both: Both) -> None:
    execute(both, probes.ON_ABSENT_TOPICS, ResourceType.TOPIC, ABSENT)


def test_groups_are_authorized_alike(both: Both) -> None:
    execute(both, probes.ON_GROUPS, ResourceType.GROUP)


def test_transactional_ids_are_authorized_alike(both: Both) -> None:
    execute(both, probes.ON_TRANSACTIONAL_IDS, ResourceType.TRANSACTIONAL_ID)


def test_lists_show_what_may_be_described(both: Both) -> None:
    lists = [
        Probe("Metadata", (ResourceType.TOPIC,), lambda t: probes.metadata()),
        Probe("DescribeTopicPartitions", (ResourceType.TOPIC,), lambda t: {"topics": []}),
        Probe("ListGroups", (ResourceType.GROUP,), lambda t: {}),
        Probe("ListTransactions", (ResourceType.TRANSACTIONAL_ID,), lambda t: {}),
        Probe("OffsetFetch", (ResourceType.TOPIC,), lambda t: probes.offsets(t, every=True), 9),
    ]
    check(both.differences(lists, ResourceType.TOPIC, "any-host", EXISTING))


#: Variants without a prefix: brokers reject a rule about a prefix of the cluster's name.
OF_CLUSTER = [variant for variant in EXECUTED if all(rule.prefix is None for rule in VARIANTS[variant])]


@pytest.mark.parametrize("variant", OF_CLUSTER)
def test_the_cluster_is_authorized_alike(both: Both, variant: str) -> None:
    rules = [rule.on(ResourceType.CLUSTER, CLUSTER) for rule in VARIANTS[variant]]
    if rules:
        both.each("create_rules", rules)
    try:
        check(both.differences(cluster_probes.ON_CLUSTER, ResourceType.CLUSTER, variant, EXISTING))
    finally:
        if rules:
            both.each("delete_rules", rules)


REGEX_GROUP, REGEX = "regex-group", "regex-.*"


def regex_rules() -> list[AclCreation]:
    return [
        ALLOWED.on(ResourceType.GROUP, REGEX_GROUP),
        Rule(Operation.DESCRIBE, host=CLIENT).on(ResourceType.TOPIC, "regex-described"),
        Rule(Operation.READ, host=CLIENT).on(ResourceType.TOPIC, "regex-read"),
        Rule(Operation.WRITE, host=ELSEWHERE).on(ResourceType.TOPIC, "regex-hidden"),
    ]


def regex_topics(harness: Harness) -> set[str]:
    """Returns the topics that the coordinator assigns to a member with a regular expression."""
    names = ("regex-described", "regex-read", "regex-hidden", "regex-without-rules")
    created = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    created_topics = harness.admin.call(CreateTopicsRequest(topics=created, timeout_ms=20_000), 7)
    ids = {topic.topic_id: topic.name for topic in created_topics.topics}
    described = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    until(
        lambda: not any(one.error_code for one in harness.admin.call(described, 12).topics), "the topics did not come"
    )
    member = {"group_id": REGEX_GROUP, "member_id": str(uuid.uuid4()), "topic_partitions": []}
    beat = ConsumerGroupHeartbeatRequest(
        **member, member_epoch=0, rebalance_timeout_ms=60_000, subscribed_topic_regex=REGEX
    )
    found = set()

    def is_assigned() -> bool:
        response = harness.client.call(beat, 1)
        assert response.error_code == 0, (response.error_code, response.error_message)
        beat.member_epoch = response.member_epoch
        found.update(ids[one.topic_id] for one in (response.assignment.topic_partitions if response.assignment else ()))
        return bool(found)

    until(is_assigned, "nothing was assigned")
    harness.client.call(ConsumerGroupHeartbeatRequest(**member, member_epoch=-1), 1)
    return found


def test_regular_expressions_find_what_may_be_described(both: Both) -> None:
    both.each("create_rules", regex_rules())
    try:
        kafka, odradek = (regex_topics(harness) for harness in both.harnesses)
        assert kafka == odradek == {"regex-described", "regex-read"}
    finally:
        both.each("delete_rules", regex_rules())


def test_deletions_are_authorized_alike(both: Both) -> None:
    for n, probe in enumerate(probes.DESTRUCTIVE):
        execute(both, [probe], ResourceType.TOPIC, (EXISTING, DOOMED)[n])
