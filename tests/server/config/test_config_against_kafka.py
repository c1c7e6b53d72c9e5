"""Configurations described, changed and listed as by Apache Kafka 4.3.1: both get the same requests, and every field of the
responses is compared.

Odradek gets the server.properties of the Kafka broker. The intended differences are listed here: keys that are new in 4.4,
and messages where Kafka returns a Java exception.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from odradek.client.properties_file import read_properties
from odradek.metadata.configs import ConfigType, definition
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    LegacyAlterableConfig,
    LegacyAlterConfigsResource,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest
from odradek.protocol.schema import Message

from compat_tests.oracle import ApacheKafka
from compat_tests.wire import WireClient
from tests.harness.examples import examples
from tests.server.harness.config import ConfigHarness

pytestmark = pytest.mark.oracle

TOPIC, BROKER, LOGGER, SUBSCRIPTION, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
NAME = "configured"

#: Keys that 4.4 has and 4.3.1 has not.
NEW_IN_4_4 = {
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.group.enable",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.topic.name.prefix",
    "group.streams.assignors",
    "group.streams.rack.aware.assignment.tags",
    "group.streams.topology.description.plugin.class",
    "log.remote.copy.lag.bytes",
    "log.remote.copy.lag.ms",
    "max.decompressed.message.bytes",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
    "sasl.oauthbearer.allow.unverified.audience",
    "sasl.oauthbearer.allow.unverified.issuer",
    "streams.assignor.name",
    "streams.rack.aware.assignment.tags",
}
#: A controller that starts with eligible leader replicas sets this for all brokers; the stand starts without.
OF_THE_FORMATTED_CLUSTER = {"min.insync.replicas"}

Change = tuple[str, int, str | None]


#: Values for every layer and unit.
STATIC = {
    "log.retention.hours": "100",
    "log.roll.ms": "3600000",
    "num.io.threads": "4",
    "ssl.key.password": "hush",
    "some.plug.ins.key": "x",
    "listener.name.plaintext.max.connections": "77",
}
_PUBLISHED_DEADLINE_S = 60


@pytest.fixture(scope="module")
def both(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WireClient, ConfigHarness]]:
    """A client of a Kafka broker that only these tests use, since they change its configuration, and the harness."""
    with ApacheKafka(tmp_path_factory.mktemp("configured-kafka"), STATIC) as broker:
        properties = read_properties(broker.directory / "server.properties")
        with WireClient(broker.bootstrap) as kafka:
            topic = CreatableTopic(name=NAME, num_partitions=1, replication_factor=1)
            response = kafka.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
            assert response.topics[0].error_code == 0
            yield kafka, ConfigHarness(properties, (NAME,))


@pytest.fixture(scope="module")
def node(both: tuple[WireClient, ConfigHarness]) -> str:
    return str(both[1].node_id)


def described(response: Any) -> dict[tuple[int, str], Any]:
    return {
        (result.resource_type, result.resource_name): (
            result.error_code,
            result.error_message,
            {
                c.name: (
                    (c.value, c.read_only, c.config_source, c.is_sensitive, c.config_type),
                    [(s.name, s.value, s.source) for s in c.synonyms],
                )
                for c in result.configs
                if c.name not in NEW_IN_4_4 | OF_THE_FORMATTED_CLUSTER
            },
        )
        for result in response.results
    }


def compare_descriptions(both: tuple[WireClient, ConfigHarness], *resources: tuple[int, str], version: int = 4) -> None:
    asked = [DescribeConfigsResource(resource_type, name, None) for resource_type, name in resources]
    request = DescribeConfigsRequest(resources=asked, include_synonyms=version >= 1)
    odradek = described(both[1].call(request, version))
    deadline = time.monotonic() + _PUBLISHED_DEADLINE_S
    # Kafka responds to a change before its broker has applied it.
    while (kafka := described(both[0].call(request, version))) != odradek and time.monotonic() < deadline:
        time.sleep(0.05)
    assert odradek == kafka


def test_every_key_of_every_kind_is_described_as_kafka_describes_it(
    both: tuple[WireClient, ConfigHarness], node: str
) -> None:
    kinds = (TOPIC, NAME), (BROKER, node), (BROKER, ""), (GROUP, "g"), (SUBSCRIPTION, "s")
    compare_descriptions(both, *kinds)
    compare_descriptions(both, *kinds, version=1)


def test_invalid_descriptions_fail_as_in_kafka(both: tuple[WireClient, ConfigHarness]) -> None:
    compare_descriptions(both, (TOPIC, "nope"), (TOPIC, "a b"), (TOPIC, ""), (BROKER, "x"), (BROKER, "999"))
    compare_descriptions(both, (LOGGER, ""), (LOGGER, "999"), (LOGGER, "x"), (GROUP, ""), (SUBSCRIPTION, ""))
    compare_descriptions(both, (TOPIC, NAME), (5, "x"))


def outcomes(response: Any) -> list[tuple[Any, ...]]:
    return [(r.error_code, r.error_message, r.resource_type, r.resource_name) for r in response.responses]


def incrementally(resource_type: int, name: str, *changes: Change) -> IncrementalAlterConfigsRequest:
    resource = AlterConfigsResource(resource_type, name, [AlterableConfig(*c) for c in changes])
    return IncrementalAlterConfigsRequest(resources=[resource])


def wholly(resource_type: int, name: str, **values: str | None) -> AlterConfigsRequest:
    configs = [LegacyAlterableConfig(key.replace("_", "."), value) for key, value in values.items()]
    return AlterConfigsRequest(resources=[LegacyAlterConfigsResource(resource_type, name, configs)])


def topic(*changes: Change) -> Callable[[str], Message]:
    return lambda node: incrementally(TOPIC, NAME, *changes)


def broker(*changes: Change) -> Callable[[str], Message]:
    return lambda node: incrementally(BROKER, node, *changes)


def others(resource_type: int, name: str, *changes: Change) -> Callable[[str], Message]:
    return lambda node: incrementally(resource_type, name, *changes)


#: Changes in this order, on the same resources: later ones depend on earlier ones.
CHANGES = (
    topic(("retention.ms", SET, " 5000 "), ("cleanup.policy", SET, "compact,delete")),
    topic(("nope", SET, "1")),
    topic(("nope", DELETE, "1")),
    topic(("retention.ms", SET, "x")),
    topic(("retention.ms", SET, "-2")),
    topic(("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")),
    topic(("cleanup.policy", APPEND, "compact")),
    topic(("cleanup.policy", SUBTRACT, "delete")),
    topic(("cleanup.policy", SUBTRACT, "compact,delete,compact")),
    topic(("cleanup.policy", APPEND, "foo")),
    topic(("retention.ms", APPEND, "1")),
    topic(("cleanup.policy", APPEND, None)),
    topic(("cleanup.policy", SET, None), ("retention.ms", SET, None)),
    topic(("cleanup.policy", DELETE, None)),
    topic(("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    topic(("leader.replication.throttled.replicas", SET, "0:1,x")),
    topic(("leader.replication.throttled.replicas", SET, "*")),
    topic(("remote.storage.enable", SET, "true")),
    topic(("segment.bytes", SET, "14")),
    topic(),
    others(TOPIC, "nope", ("retention.ms", SET, "1")),
    others(TOPIC, "nope"),
    others(TOPIC, "a b", ("retention.ms", SET, "1")),
    others(TOPIC, "", ("retention.ms", SET, "1")),
    others(3, "x", ("retention.ms", SET, "1")),
    others(0, "x", ("retention.ms", SET, "1")),
    broker(("log.dirs", SET, "/x")),
    broker(("log.retention.ms", SET, "1234567"), ("message.max.bytes", SET, "2000000")),
    broker(("a.plug.ins.key", SET, "1")),
    broker(("log.retention.ms", SET, "x")),
    broker(("log.retention.ms", SET, "0")),
    broker(("log.roll.ms", SET, "0")),
    broker(("log.cleanup.policy", APPEND, "compact")),
    broker(("log.retention.ms", APPEND, "1")),
    broker(("nope", APPEND, "1")),
    broker(("log.cleanup.policy", 9, "1")),
    broker(("num.io.threads", SET, "100")),
    broker(("num.io.threads", SET, "1")),
    broker(("num.network.threads", SET, "100")),
    broker(("log.cleaner.dedupe.buffer.size", SET, "1")),
    broker(("ssl.keystore.password", SET, "s")),
    broker(("leader.replication.throttled.rate", SET, "1000")),
    broker(("leader.replication.throttled.rate", SET, "-1")),
    broker(("listener.name.plaintext.max.connections", SET, "66")),
    broker(("cordoned.log.dirs", SET, "/nope")),
    others(BROKER, "999", ("log.retention.ms", SET, "1")),
    others(BROKER, "x", ("log.retention.ms", SET, "1")),
    others(BROKER, "", ("log.retention.ms", SET, "99999"), ("background.threads", SET, "12")),
    others(BROKER, "", ("listeners", SET, "PLAINTEXT://:1")),
    others(BROKER, "", ("listener.name.plaintext.ssl.key.password", SET, "s")),
    others(BROKER, "", ("max.connections.per.ip", SET, "0")),
    others(BROKER, "", ("max.connections.per.ip.overrides", SET, "127.0.0.9:50")),
    others(SUBSCRIPTION, "s", ("interval.ms", SET, "1000"), ("match", SET, "client_id=a.*"), ("metrics", SET, "x,y")),
    others(SUBSCRIPTION, "s", ("interval.ms", SET, "1")),
    others(SUBSCRIPTION, "s", ("match", SET, "foo=1")),
    others(SUBSCRIPTION, "s", ("match", SET, "client_id=[")),
    others(SUBSCRIPTION, "s", ("nope", SET, "1")),
    others(SUBSCRIPTION, "", ("metrics", SET, "1")),
    others(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"), ("share.auto.offset.reset", SET, "earliest")),
    others(GROUP, "g", ("nope", SET, "1")),
    others(GROUP, "g", ("share.auto.offset.reset", SET, "x")),
    others(GROUP, "", ("share.auto.offset.reset", SET, "latest")),
    others(LOGGER, "x", ("root", SET, "DEBUG")),
    lambda node: incrementally(LOGGER, node, ("no.such.logger", SET, "DEBUG")),
    lambda node: incrementally(LOGGER, node, ("root", SET, "LOUD")),
    lambda node: incrementally(LOGGER, node, ("root", DELETE, None)),
    lambda node: incrementally(LOGGER, node, ("root", APPEND, "DEBUG")),
    lambda node: wholly(TOPIC, NAME, retention_ms="123456", segment_ms="5000"),
    lambda node: wholly(TOPIC, NAME, retention_ms=None),
    lambda node: wholly(BROKER, node, log_dirs="/x"),
    lambda node: wholly(BROKER, node, log_segment_bytes="1048577"),
    lambda node: wholly(LOGGER, node, root="WARN"),
    lambda node: wholly(9, "x", root="WARN"),
    lambda node: wholly(TOPIC, "nope", retention_ms="1"),
)


def test_changes_are_taken_and_refused_as_kafka_does_and_lead_to_the_same(
    both: tuple[WireClient, ConfigHarness], node: str
) -> None:
    kafka, odradek = both
    different = []
    for make in CHANGES:
        request = make(node)
        version = 1 if isinstance(request, IncrementalAlterConfigsRequest) else 2
        theirs, ours = (outcomes(side.call(request, version)) for side in (kafka, odradek))
        if theirs != ours:
            different.append((request, theirs, ours))
    assert different == []
    compare_descriptions(both, (TOPIC, NAME), (BROKER, node), (BROKER, ""), (GROUP, "g"), (SUBSCRIPTION, "s"))


#: Elements of lists whose values are checked; the others take any.
ELEMENTS = {
    "cleanup.policy": ("delete", "compact"),
    "log.cleanup.policy": ("delete", "compact"),
    "leader.replication.throttled.replicas": ("0:1", "1:1"),
    "follower.replication.throttled.replicas": ("0:1", "1:1"),
    "match": ("client_id=a", "client_software_name=b"),
}


#: Kafka returns a Java exception, or loads a class of that name, for each change of these.
WITH_JAVA_EXCEPTIONS = {"controller.listener.names", "listeners", "metric.reporters", "process.roles"}


def list_keys(resource_type: int) -> list[str]:
    keys = definition(resource_type)
    left_out = NEW_IN_4_4 | WITH_JAVA_EXCEPTIONS
    return sorted(name for name, key in keys.items() if key.type is ConfigType.LIST and name not in left_out)


def list_changes(key: str) -> list[tuple[int, str | None]]:
    one, other = ELEMENTS.get(key, ("a", "b"))
    return [
        (SET, ""),
        (SET, one),
        (SET, f"{one},{other}"),
        (DELETE, None),
        (APPEND, one),
        (APPEND, other),
        (APPEND, ""),
        (APPEND, f"{other},,"),
        (SUBTRACT, one),
        (SUBTRACT, f"{other},{one}"),
        (SUBTRACT, ""),
        (SUBTRACT, ","),
    ]


def value_of(side: WireClient | ConfigHarness, resource_type: int, name: str, key: str) -> tuple[str | None, int]:
    resource = DescribeConfigsResource(resource_type, name, [key])
    (config,) = side.call(DescribeConfigsRequest(resources=[resource]), 4).results[0].configs
    return config.value, config.config_source


@pytest.mark.parametrize(
    ("resource_type", "key", "length"),
    [
        *((TOPIC, key, 2) for key in list_keys(TOPIC)),
        *((SUBSCRIPTION, key, 2) for key in list_keys(SUBSCRIPTION)),
        *((GROUP, key, 2) for key in list_keys(GROUP)),
        *((BROKER, key, 1) for key in list_keys(BROKER) if key != "log.cleanup.policy"),
        (BROKER, "log.cleanup.policy", 2),
    ],
)
@pytest.mark.slow
def test_lists_change_in_every_order_as_in_kafka(
    both: tuple[WireClient, ConfigHarness], node: str, resource_type: int, key: str, length: int
) -> None:
    name = {TOPIC: NAME, BROKER: node, SUBSCRIPTION: "lists", GROUP: "lists"}[resource_type]
    sequences = list(itertools.product(list_changes(key), repeat=length))
    # Each single change, and of the pairs as many as random tests have examples.
    count = len(sequences) if length == 1 else examples(len(sequences))
    for sequence in random.Random(key).sample(sequences, count):
        for operation, operand in ((DELETE, None), *sequence):
            request = incrementally(resource_type, name, (key, operation, operand))
            theirs, ours = (outcomes(side.call(request, 1)) for side in both)
            assert theirs == ours, f"{operation} {operand!r} of {sequence}"
            await_same_value(both, resource_type, name, key)
    for side in both:
        side.call(incrementally(resource_type, name, (key, DELETE, None)), 1)


def await_same_value(both: tuple[WireClient, ConfigHarness], resource_type: int, name: str, key: str) -> None:
    """A broker of Kafka checks the next change against the value that it has applied."""
    deadline = time.monotonic() + _PUBLISHED_DEADLINE_S
    ours = value_of(both[1], resource_type, name, key)
    while (theirs := value_of(both[0], resource_type, name, key)) != ours:
        assert time.monotonic() < deadline, (theirs, ours)
        time.sleep(0.02)


def test_config_resources_are_listed_as_in_kafka(both: tuple[WireClient, ConfigHarness]) -> None:
    for version, types in ((0, []), (1, [TOPIC]), (1, [BROKER, LOGGER]), (1, [3]), (1, [GROUP, SUBSCRIPTION])):
        request = ListConfigResourcesRequest(resource_types=types)
        kafka, odradek = (
            (response.error_code, {(r.resource_type, r.resource_name) for r in response.config_resources})
            for response in (side.call(request, version) for side in both)
        )
        assert odradek[0] == kafka[0]
        assert odradek[1] <= kafka[1] if TOPIC in types else odradek[1] == kafka[1]
