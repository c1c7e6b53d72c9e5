"""A user's own classes beside the same ones in Java: they get the same arguments, and clients the same responses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.client.sasl import PasswordLogin
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.alter_configs import LegacyAlterableConfig as LegacyConfig
from odradek.protocol.messages.alter_configs import LegacyAlterConfigsResource as LegacyResource
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.schema import Message

from compat_tests.access import log_in
from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.java.fetch import ORACLE, classpath, java
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

HERE = Path(__file__).parent
USERS = {"alice": "alice-secret", "bob": "bob-secret", "nobody": "nobody-secret"}
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BROKER, TOPIC = 4, 2
SET, DELETE, APPEND, SUBTRACT = range(4)
KEYS = {
    "create.topic.policy.class.name": "Topics",
    "alter.config.policy.class.name": "Configs",
    "principal.builder.class": "Principals",
    "client.quota.callback.class": "Quotas",
}


class Own:
    """A broker with the classes, and the lines that they write."""

    def __init__(self, kind: type[BrokerProcess], directory: Path, prefix: str) -> None:
        self.log = directory / "asked"
        self.at = {name: f"127.0.0.1:{free_port()}" for name in ("PLAINTEXT", "LOGIN")}
        listeners = ",".join(f"{name}://{address}" for name, address in self.at.items())
        controller = f"127.0.0.1:{free_port()}"
        properties = {
            **SINGLE_NODE,
            "listeners": f"{listeners},CONTROLLER://{controller}",
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": controller,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f"{LOGIN} "
            + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
            + ";",
            "num.partitions": "3",
            "own.word": "a property",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "Team:alice;User:ANONYMOUS",
            **{key: f"{prefix}{name}" for key, name in KEYS.items()},
        }
        self.broker = kind(directory, properties)
        self.broker.port = int(self.at["PLAINTEXT"].partition(":")[2])

    def asked(self, first: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.startswith(first)]


class WithClasses(ApacheKafka):
    def command(self) -> list[str]:
        command = super().command()
        at = command.index("-cp") + 1
        command[at] += f"{os.pathsep}{self.directory}"
        return command

    def environment(self) -> dict[str, str]:
        return {**os.environ, "OWN_CLASSES_LOG": str(self.directory / "asked")}


class WithModule(OdradekProcess):
    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(HERE), "OWN_CLASSES_LOG": str(self.directory / "asked")}


@pytest.fixture(scope="module")
def both(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Own, Own]]:
    theirs, ours = (tmp_path_factory.mktemp(name) for name in ("apache", "odradek"))
    compiler = str(Path(java()).with_name("javac"))
    source = str(HERE / "OwnClasses.java")
    subprocess.run([compiler, "-cp", classpath(ORACLE), "-d", str(theirs), source], check=True, timeout=120)
    apache, odradek = Own(WithClasses, theirs, "OwnClasses$"), Own(WithModule, ours, "python:own_classes:")
    with apache.broker, odradek.broker:
        yield apache, odradek


def topics(*wanted: CreatableTopic, validate_only: bool = False) -> tuple[Message, int]:
    return CreateTopicsRequest(topics=list(wanted), timeout_ms=10_000, validate_only=validate_only), 7


def topic(name: str, *configs: tuple[str, str], partitions: int = 1, replicas: int = 1) -> CreatableTopic:
    return CreatableTopic(name, partitions, replicas, configs=[CreatableTopicConfig(*one) for one in configs])


def configs(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> tuple[Message, int]:
    changed = [AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, changed)], validate_only), 1


def legacy(kind: int, name: str, *values: tuple[str, str]) -> tuple[Message, int]:
    return AlterConfigsRequest([LegacyResource(kind, name, [LegacyConfig(*one) for one in values])]), 2


ASSIGNED = CreatableTopic("assigned", -1, -1, assignments=[CreatableReplicaAssignment(index, [1]) for index in (0, 1)])
REQUESTS = [
    topics(topic("good", ("retention.ms", "1000"), ("cleanup.policy", "compact"), partitions=-1, replicas=-1)),
    topics(topic("bad"), topic("fine"), topic("bad.too")),
    topics(topic("wordless")),
    topics(topic("bad.valid"), topic("valid"), validate_only=True),
    topics(ASSIGNED),
    topics(topic("bad.many", replicas=2), topic("bad.none", partitions=0), topic("bad/name"), topic("good")),
    topics(topic("bad.value", ("retention.ms", "soon"))),
    topics(topic("large", ("max.message.bytes", "4242"))),
    topics(topic("bad.large", ("max.message.bytes", "4242"))),
    configs(TOPIC, "good", ("max.message.bytes", SET, "2000"), ("retention.ms", DELETE, None)),
    configs(TOPIC, "good", ("cleanup.policy", APPEND, "delete")),
    configs(TOPIC, "good", ("cleanup.policy", SUBTRACT, "compact")),
    configs(TOPIC, "good", ("max.message.bytes", SET, "4242")),
    configs(TOPIC, "good", ("max.message.bytes", SET, "4242"), validate_only=True),
    configs(TOPIC, "good", ("retention.ms", SET, "9"), validate_only=True),
    configs(TOPIC, "good", ("max.message.bytes", SET, "many")),
    configs(TOPIC, "absent", ("max.message.bytes", SET, "4242")),
    configs(BROKER, "1", ("log.cleaner.threads", SET, "2")),
    configs(BROKER, "", ("message.max.bytes", SET, "2000000")),
    legacy(TOPIC, "good", ("max.message.bytes", "3000")),
    legacy(TOPIC, "good", ("retention.ms", "3000")),
    legacy(TOPIC, "good", ("max.message.bytes", "4242")),
    legacy(TOPIC, "good", ("max.message.bytes", "4343")),
    configs(TOPIC, "good", ("max.message.bytes", SET, "4343")),
    topics(topic("good.wordless", ("max.message.bytes", "4343"))),
    topics(topic("fine.2"), topic("broken"), topic("fine.3")),
    configs(TOPIC, "good", ("max.message.bytes", SET, "4444")),
    configs(TOPIC, "good", ("retention.ms", SET, "10")),
]


def results(response: Any) -> list[Any]:
    found = getattr(response, "topics", None) or response.responses
    return [(one.error_code, one.error_message) for one in found]


@pytest.mark.oracle
def test_policies_get_the_same_and_clients_get_the_same_responses(both: tuple[Own, Own]) -> None:
    seen = []
    for own in both:
        responses = []
        with WireClient(own.at["PLAINTEXT"]) as client:
            for request, version in REQUESTS:
                before = len(own.asked(""))
                response = results(client.call(request, version))
                lines = [line for line in own.asked("")[before:] if line.startswith(("topic", "config "))]
                responses.append((type(request).__name__, response, lines))
        seen.append((own.asked("configured"), responses))
    theirs, ours = seen
    assert ours == theirs


def login(own: Own, user: str) -> str:
    with WireClient(own.at["LOGIN"], client_id="x") as client:
        try:
            log_in(client, PasswordLogin("PLAIN", user, USERS[user]))
            return f"served: {client.call(ListGroupsRequest(), 4).error_code}"
        except ConnectionError:
            return "refused"


@pytest.mark.oracle
def test_a_builder_of_principals_gets_the_same(both: tuple[Own, Own]) -> None:
    theirs, ours = (([login(own, user) for user in USERS], sorted(set(own.asked("principal LOGIN")))) for own in both)
    assert ours == theirs
    assert theirs[0] == ["served: 0", "served: 0", "refused"]


def throttled_ms(own: Own, client_id: str) -> int:
    batch = encode_batch([Record(0, 0, None, bytes(50_000), [])])
    data = [TopicProduceData("produced", partition_data=[PartitionProduceData(0, batch)])]
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=data)
    with WireClient(own.at["LOGIN"], client_id=client_id) as client:
        log_in(client, PasswordLogin("PLAIN", "alice", USERS["alice"]))
        first = eventually(
            lambda: (made := client.call(request, 9)).responses[0].partition_responses[0].error_code == 0 and made,
            what="there is a leader",
        )
        return int(first.throttle_time_ms)


@pytest.mark.oracle
def test_a_quota_callback_gets_the_same_clients(both: tuple[Own, Own]) -> None:
    seen = []
    for own in both:
        with WireClient(own.at["PLAINTEXT"]) as client:
            assert results(client.call(*topics(topic("produced")))) == [(0, None)]
        is_throttled = {name: throttled_ms(own, name) > 0 for name in ("fast-1", "slow-1")}
        # Kafka makes more calls: also for FETCH, and for the client before its login.
        asked = {line for line in own.asked("quota ") if " Team:alice '" in line and "FETCH" not in line}
        asked = {line for line in asked if not line.endswith("'x'")}
        seen.append((is_throttled, sorted(asked)))
    theirs, ours = seen
    assert ours == theirs


def operations(response: Any) -> list[tuple[str, int]]:
    """Returns every field of a response that names operations, at any depth."""
    if isinstance(response, list):
        return [found for one in response for found in operations(one)]
    if not isinstance(response, Message):
        return []
    fields = [(field.name, getattr(response, field.name)) for field in response.SCHEMA.fields]
    return [pair for pair in fields if "authorized_operations" in pair[0]] + [
        found for _, value in fields for found in operations(value)
    ]


ASKED: list[tuple[Message, int]] = [
    (DescribeClusterRequest(include_cluster_authorized_operations=True), 1),
    (MetadataRequest([MetadataRequestTopic(name="ruled")], include_topic_authorized_operations=True), 10),
]


@pytest.mark.oracle
def test_a_super_user_may_do_what_rules_deny(both: tuple[Own, Own]) -> None:
    """The builder makes alice a super user; for bob, who is none, the ACLs decide."""
    seen = []
    for own in both:
        with WireClient(own.at["PLAINTEXT"]) as client:
            assert results(client.call(*topics(topic("ruled")))) == [(0, None)]
            denied, allowed = (TOPIC, "ruled", 3, "Team:alice", "*", 2, 2), (TOPIC, "ruled", 3, "Team:bob", "*", 8, 3)
            made = client.call(CreateAclsRequest([AclCreation(*denied), AclCreation(*allowed)]), 3)
            assert {one.error_code for one in made.results} == {0}
        found = {}
        for user in ("bob", "alice"):  # bob's result shows that the ACLs are effective
            with WireClient(own.at["LOGIN"], client_id="x") as client:
                log_in(client, PasswordLogin("PLAIN", user, USERS[user]))
                eventually(
                    lambda client=client: client.call(*ASKED[1]).topics[0].error_code == 0, what="it may be described"
                )
                found[user] = [operations(client.call(*one)) for one in ASKED]
        seen.append(found)
    theirs, ours = seen
    assert ours == theirs
    assert theirs["alice"] != theirs["bob"]
