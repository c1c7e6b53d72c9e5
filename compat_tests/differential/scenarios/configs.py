"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from ..setup_steps import topic

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

#: Keys of a broker whose values depend neither on the machine nor on the port.
BROKER_KEYS = [
    "log.retention.hours", "log.retention.ms", "log.segment.bytes", "message.max.bytes", "num.partitions",
    "compression.type", "auto.create.topics.enable", "min.insync.replicas", "log.cleanup.policy",
    "group.initial.rebalance.delay.ms", "offsets.topic.num.partitions", "num.io.threads", "log.cleaner.threads",
    "max.connections", "node.id",
    "ssl.keystore.password", "socket.request.max.bytes",
]  # fmt: skip


def describe(kind: int, name: str, keys: list[str] | None = None, **more: Any) -> Step:
    wanted = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return ask("DescribeConfigs", resources=[wanted], include_synonyms=True, **more)


def change(
    operation: int, key: str, value: str | None, *, kind: int = TOPIC, name: str = "$t", validate_only: bool = False
) -> Step:
    config = {"name": key, "config_operation": operation, "value": value}
    wanted = {"resource_type": kind, "resource_name": name, "configs": [config]}
    return ask("IncrementalAlterConfigs", resources=[wanted], validate_only=validate_only)


def replace(*pairs: tuple[str, str | None], kind: int = TOPIC, name: str = "$t", validate_only: bool = False) -> Step:
    wanted = {"resource_type": kind, "resource_name": name, "configs": [{"name": k, "value": v} for k, v in pairs]}
    return ask("AlterConfigs", resources=[wanted], validate_only=validate_only)


def until_set(key: str, value: str) -> Step:
    """Waits until the broker has a topic's new value."""
    resource = {"resource_type": TOPIC, "resource_name": "$t", "configuration_keys": [key]}
    return prepare("DescribeConfigs", resources=[resource], until=lambda a: a.results[0].configs[0].value == value)


BAD_CHANGES = (
    (SET, "no.such.config", "1"),
    (SET, "retention.ms", "soon"),
    (SET, "retention.ms", None),
    (SET, "cleanup.policy", "burn"),
    (SET, "min.insync.replicas", "0"),
    (SET, "compression.type", "rar"),
    (SET, "segment.bytes", "1"),
    (APPEND, "retention.ms", "5"),
    (SUBTRACT, "retention.ms", "5"),
    (APPEND, "cleanup.policy", "burn"),
    (DELETE, "no.such.config", None),
    (DELETE, "retention.ms", None),
    (9, "retention.ms", "5"),
)

DESCRIBED = [
    scenario("DescribeConfigs", "all of a topic", topic(), describe(TOPIC, "$t")),
    scenario(
        "DescribeConfigs",
        "some of a topic",
        topic(),
        describe(TOPIC, "$t", ["retention.ms", "cleanup.policy", "no.such.config"]),
    ),
    scenario("DescribeConfigs", "none of a topic", topic(), describe(TOPIC, "$t", [])),
    scenario(
        "DescribeConfigs",
        "without synonyms",
        topic(),
        ask("DescribeConfigs", resources=[{"resource_type": TOPIC, "resource_name": "$t", "configuration_keys": None}]),
    ),
    scenario(
        "DescribeConfigs",
        "a topic's own value over the broker's",
        topic(configs={"retention.ms": "5000", "cleanup.policy": "compact", "max.message.bytes": "1000"}),
        describe(TOPIC, "$t", ["retention.ms", "cleanup.policy", "max.message.bytes", "segment.bytes"]),
    ),
    scenario("DescribeConfigs", "a topic that is not there", describe(TOPIC, "$none")),
    scenario("DescribeConfigs", "a name that no topic may have", describe(TOPIC, "a b"), describe(TOPIC, "")),
    scenario("DescribeConfigs", "some of a broker", describe(BROKER, "0", BROKER_KEYS)),
    scenario("DescribeConfigs", "the dynamic defaults of all brokers", describe(BROKER, "")),
    scenario("DescribeConfigs", "a broker that is not this one", describe(BROKER, "7")),
    scenario("DescribeConfigs", "a broker whose name is no number", describe(BROKER, "x")),
    scenario(
        "DescribeConfigs", "loggers of a broker that is not this one", describe(LOGGER, "7"), describe(LOGGER, "")
    ),
    scenario("DescribeConfigs", "a group", describe(GROUP, "$g")),
    scenario("DescribeConfigs", "a group without a name", describe(GROUP, "")),
    scenario("DescribeConfigs", "client metrics that are not there", describe(CLIENT_METRICS, "$m")),
    scenario(
        "DescribeConfigs", "kinds of resources that do not exist", *(describe(kind, "x") for kind in (0, 1, 3, 64))
    ),
    scenario(
        "DescribeConfigs",
        "the same resource twice",
        topic(),
        ask(
            "DescribeConfigs",
            resources=[{"resource_type": TOPIC, "resource_name": "$t", "configuration_keys": ["retention.ms"]}] * 2,
        ),
    ),
    scenario("DescribeConfigs", "nothing", ask("DescribeConfigs", resources=[])),
]
INCREMENTAL = [
    scenario(
        "IncrementalAlterConfigs",
        "a value is set and taken back",
        topic(),
        change(SET, "retention.ms", "1234"),
        until_set("retention.ms", "1234"),
        describe(TOPIC, "$t", ["retention.ms"]),
        change(DELETE, "retention.ms", None),
        until_set("retention.ms", "604800000"),
        describe(TOPIC, "$t", ["retention.ms"]),
    ),
    scenario(
        "IncrementalAlterConfigs",
        "a list grows and shrinks",
        topic(configs={"cleanup.policy": "delete"}),
        change(APPEND, "cleanup.policy", "compact"),
        until_set("cleanup.policy", "delete,compact"),
        change(APPEND, "cleanup.policy", "compact"),
        change(SUBTRACT, "cleanup.policy", "delete"),
        until_set("cleanup.policy", "compact"),
        change(SUBTRACT, "cleanup.policy", "delete"),
        describe(TOPIC, "$t", ["cleanup.policy"]),
    ),
    scenario("IncrementalAlterConfigs", "changes that may not be", topic(), *(change(*one) for one in BAD_CHANGES)),
    scenario(
        "IncrementalAlterConfigs",
        "a trial",
        topic(),
        change(SET, "retention.ms", "1234", validate_only=True),
        change(SET, "retention.ms", "x", validate_only=True),
        describe(TOPIC, "$t", ["retention.ms"]),
    ),
    scenario(
        "IncrementalAlterConfigs",
        "a topic that is not there",
        change(SET, "retention.ms", "1", name="$none"),
        change(SET, "retention.ms", "1", name=""),
    ),
    scenario(
        "IncrementalAlterConfigs",
        "the same key twice",
        topic(),
        ask(
            "IncrementalAlterConfigs",
            resources=[
                {
                    "resource_type": TOPIC,
                    "resource_name": "$t",
                    "configs": [{"name": "retention.ms", "config_operation": SET, "value": "1"}] * 2,
                }
            ],
        ),
    ),
    scenario(
        "IncrementalAlterConfigs",
        "the same resource twice",
        topic(),
        ask(
            "IncrementalAlterConfigs",
            resources=[
                {
                    "resource_type": TOPIC,
                    "resource_name": "$t",
                    "configs": [{"name": "retention.ms", "config_operation": SET, "value": "1"}],
                }
            ]
            * 2,
        ),
    ),
    scenario(
        "IncrementalAlterConfigs",
        "a broker's dynamic value",
        change(SET, "log.cleaner.threads", "2", kind=BROKER, name="0"),
        change(DELETE, "log.cleaner.threads", None, kind=BROKER, name="0"),
    ),
    scenario(
        "IncrementalAlterConfigs",
        "values of a broker that may not be changed or do not exist",
        *(
            change(SET, key, value, kind=BROKER, name=name)
            for key, value, name in (
                ("node.id", "5", "0"),
                ("log.dirs", "/x", "0"),
                ("no.such.config", "1", "0"),
                ("log.cleaner.threads", "x", "0"),
                ("listeners", "PLAINTEXT://:1", ""),
                ("log.cleaner.threads", "2", "9"),
                ("log.cleaner.threads", "2", "x"),
                ("num.partitions", "0", "0"),
            )
        ),
    ),
    scenario(
        "IncrementalAlterConfigs",
        "a group",
        change(SET, "consumer.session.timeout.ms", "50000", kind=GROUP, name="$g"),
        change(SET, "no.such.config", "1", kind=GROUP, name="$g"),
        change(SET, "consumer.session.timeout.ms", "1", kind=GROUP, name="$g"),
        change(SET, "consumer.session.timeout.ms", "50000", kind=GROUP, name=""),
    ),
    scenario(
        "IncrementalAlterConfigs",
        "client metrics",
        change(SET, "interval.ms", "1000", kind=CLIENT_METRICS, name="$m"),
        change(SET, "interval.ms", "1", kind=CLIENT_METRICS, name="$m"),
        change(SET, "x", "1", kind=CLIENT_METRICS, name="$m"),
        change(DELETE, "interval.ms", None, kind=CLIENT_METRICS, name="$m"),
    ),
    scenario(
        "IncrementalAlterConfigs",
        "kinds of resources that do not exist",
        *(change(SET, "a", "b", kind=kind, name="x") for kind in (0, 1, 3, 64)),
    ),
    scenario("IncrementalAlterConfigs", "nothing", ask("IncrementalAlterConfigs", resources=[])),
]
REPLACED = [
    scenario(
        "AlterConfigs",
        "all values are replaced",
        topic(configs={"retention.ms": "1"}),
        replace(("segment.ms", "77777")),
        until_set("segment.ms", "77777"),
        describe(TOPIC, "$t", ["segment.ms", "retention.ms"]),
    ),
    scenario(
        "AlterConfigs",
        "a trial",
        topic(),
        replace(("retention.ms", "1"), validate_only=True),
        describe(TOPIC, "$t", ["retention.ms"]),
    ),
    scenario(
        "AlterConfigs",
        "values that may not be",
        topic(),
        replace(("no.such.config", "1")),
        replace(("retention.ms", "x")),
        replace(("retention.ms", None)),
    ),
    scenario("AlterConfigs", "a topic that is not there", replace(("retention.ms", "1"), name="$none")),
    scenario(
        "AlterConfigs",
        "a broker that is not this one",
        replace(("log.cleaner.threads", "1"), kind=BROKER, name="7"),
        replace(("log.cleaner.threads", "1"), kind=BROKER, name="x"),
    ),
    scenario(
        "AlterConfigs",
        "kinds of resources that do not exist",
        *(replace(("a", "b"), kind=kind, name="x") for kind in (0, 1, 3, 64)),
    ),
    scenario("AlterConfigs", "nothing", ask("AlterConfigs", resources=[])),
]
LISTED = [
    scenario(
        "ListConfigResources",
        "client metrics by name",
        change(SET, "interval.ms", "1000", kind=CLIENT_METRICS, name="listed-metrics"),
        prepare(
            "DescribeConfigs",
            resources=[
                {"resource_type": CLIENT_METRICS, "resource_name": "listed-metrics", "configuration_keys": None}
            ],
            until=lambda a: bool(a.results[0].configs),
        ),
        ask("ListConfigResources", resource_types=[CLIENT_METRICS]),
    ),
    scenario(
        "ListConfigResources",
        "brokers and loggers",
        ask("ListConfigResources", resource_types=[BROKER, LOGGER]),
        versions="1+",
    ),
    scenario(
        "ListConfigResources",
        "kinds of resources that do not exist",
        ask("ListConfigResources", resource_types=[0]),
        ask("ListConfigResources", resource_types=[99]),
        versions="1+",
    ),
]
SCENARIOS = [*DESCRIBED, *INCREMENTAL, *REPLACED, *LISTED]
