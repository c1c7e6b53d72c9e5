"""Describing, changing and listing configurations, through the handlers and the real controller."""

from __future__ import annotations

import itertools
import logging
import random
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    LegacyAlterableConfig,
    LegacyAlterConfigsResource,
)
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest

from tests.harness.examples import examples
from tests.server.harness.config import ConfigHarness

TOPIC, BROKER, LOGGER, SUBSCRIPTION, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


def describe(harness: ConfigHarness, resource_type: int, name: str, *keys: str, version: int = 4) -> Any:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type, name, list(keys) or None)],
        include_synonyms=version >= 1,
        include_documentation=version >= 3,
    )
    (result,) = harness.call(request, version).results
    return result


def entry(harness: ConfigHarness, resource_type: int, name: str, key: str) -> Any:
    (found,) = describe(harness, resource_type, name, key).configs
    return found


def alter(harness: ConfigHarness, resource_type: int, name: str, *changes: Change, validate_only: bool = False) -> Any:
    resource = AlterConfigsResource(resource_type, name, [AlterableConfig(*c) for c in changes])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = harness.call(request, 1).responses
    return result


def replace(harness: ConfigHarness, resource_type: int, name: str, **values: str | None) -> Any:
    configs = [LegacyAlterableConfig(key.replace("_", "."), value) for key, value in values.items()]
    resource = LegacyAlterConfigsResource(resource_type, name, configs)
    (result,) = harness.call(AlterConfigsRequest(resources=[resource]), 2).responses
    return result


@pytest.fixture
def harness() -> ConfigHarness:
    return ConfigHarness({"log.retention.hours": "5", "ssl.key.password": "hush"}, ("orders",))


def test_a_topic_shows_every_key_with_its_source(harness: ConfigHarness) -> None:
    assert alter(harness, TOPIC, "orders", ("max.message.bytes", SET, "77")).error_code == 0
    shown = {c.name: c for c in describe(harness, TOPIC, "orders").configs}
    assert len(shown) == 37
    assert (shown["max.message.bytes"].value, shown["max.message.bytes"].config_source) == ("77", 1)
    assert (shown["segment.bytes"].value, shown["segment.bytes"].config_source) == ("1073741824", 5)
    assert shown["retention.ms"].value == str(5 * 3_600_000)
    synonyms = [(s.name, s.value, s.source) for s in shown["max.message.bytes"].synonyms]
    assert synonyms == [("max.message.bytes", "77", 1), ("message.max.bytes", "1048588", 5)]
    assert all(c.documentation for c in shown.values())


def test_synonyms_and_documentation_come_when_they_are_asked_for(harness: ConfigHarness) -> None:
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(TOPIC, "orders", ["retention.bytes"])])
    (result,) = harness.call(request, 4).results
    assert result.configs[0].synonyms == []
    assert result.configs[0].documentation is None


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_shows_the_same_values(harness: ConfigHarness, version: int) -> None:
    newest = {c.name: c.value for c in describe(harness, BROKER, "1", version=4).configs}
    assert {c.name: c.value for c in describe(harness, BROKER, "1", version=version).configs} == newest


def test_a_broker_shows_layers_secrets_and_what_can_change(harness: ConfigHarness) -> None:
    alter(harness, BROKER, "", ("message.max.bytes", SET, "5"))
    alter(harness, BROKER, "1", ("message.max.bytes", SET, "6"))
    found = entry(harness, BROKER, "1", "message.max.bytes")
    assert (found.value, found.config_source, found.read_only, found.config_type) == ("6", 2, False, 3)
    assert [(s.value, s.source) for s in found.synonyms] == [("6", 2), ("5", 3), ("1048588", 5)]
    secret = entry(harness, BROKER, "1", "ssl.key.password")
    assert (secret.value, secret.is_sensitive, secret.config_source) == (None, True, 4)
    assert [s.value for s in secret.synonyms] == [None]
    assert entry(harness, BROKER, "1", "log.dirs").read_only
    assert [(c.name, c.value) for c in describe(harness, BROKER, "").configs] == [("message.max.bytes", "5")]


def test_odradeks_own_keys_are_shown_where_they_are_set(harness: ConfigHarness) -> None:
    own = "odradek.metrics.port"
    assert describe(harness, BROKER, "1", own).configs == []
    found = entry(ConfigHarness({own: "9400"}), BROKER, "1", own)
    assert (found.value, found.is_sensitive, found.config_source) == ("9400", False, 4)
    assert "Prometheus" in found.documentation


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (SUBSCRIPTION, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_undescribable_resource_returns_error(
    harness: ConfigHarness, resource_type: int, name: str, error: ErrorCode
) -> None:
    result = describe(harness, resource_type, name)
    assert (result.error_code, result.configs) == (error, [])


def test_groups_and_subscriptions_without_configs_are_described(harness: ConfigHarness) -> None:
    group = entry(harness, GROUP, "readers", "consumer.session.timeout.ms")
    assert (group.value, group.config_source) == ("45000", 5)
    assert [s.name for s in group.synonyms] == ["group.consumer.session.timeout.ms"]
    assert alter(harness, GROUP, "readers", ("consumer.session.timeout.ms", SET, "50000")).error_code == 0
    assert entry(harness, GROUP, "readers", "consumer.session.timeout.ms").config_source == 8
    assert len(describe(harness, SUBSCRIPTION, "any").configs) == 3


# Changes.


def test_lists_are_appended_to_and_subtracted_from(harness: ConfigHarness) -> None:
    alter(harness, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
    assert entry(harness, TOPIC, "orders", "cleanup.policy").value == "delete,compact"
    alter(harness, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"))
    assert entry(harness, TOPIC, "orders", "cleanup.policy").value == "compact"
    alter(harness, TOPIC, "orders", ("cleanup.policy", DELETE, None))
    assert entry(harness, TOPIC, "orders", "cleanup.policy").config_source == 5
    alter(harness, BROKER, "1", ("log.cleanup.policy", APPEND, "compact"))
    assert entry(harness, TOPIC, "orders", "cleanup.policy").value == "delete,compact"


def test_list_that_is_set_empty_is_changed_without_its_default(harness: ConfigHarness) -> None:
    for operation, expected in ((APPEND, "compact"), (SUBTRACT, "")):
        assert alter(harness, TOPIC, "orders", ("cleanup.policy", SET, "")).error_code == 0
        assert alter(harness, TOPIC, "orders", ("cleanup.policy", operation, "compact")).error_code == 0
        assert entry(harness, TOPIC, "orders", "cleanup.policy").value == expected


def test_lists_change_by_the_elements_of_the_value_that_a_key_has_at_the_time(harness: ConfigHarness) -> None:
    """The expected value is that of a model; the same sequences run beside Apache Kafka in test_config_against_kafka.py."""
    key, default = "leader.replication.throttled.replicas", ""
    operands = ["0:1", "1:1,0:1", "2:2"]
    changes = [
        (SET, ""),
        (DELETE, None),
        *((operation, one) for operation in (SET, APPEND, SUBTRACT) for one in operands),
    ]
    sequences = list(itertools.product(changes, repeat=3))
    for sequence in random.Random(1).sample(sequences, examples(len(sequences))):
        alter(harness, TOPIC, "orders", (key, DELETE, None))
        elements: list[str] | None = None
        for operation, operand in sequence:
            assert alter(harness, TOPIC, "orders", (key, operation, operand)).error_code == 0
            given = (operand or "").split(",")
            if operation == SET:
                elements = given if operand else []
            elif operation == DELETE:
                elements = None
            elif operation == APPEND:
                elements = [*(elements or ()), *(one for one in given if one not in (elements or ()))]
            else:
                elements = [one for one in elements or () if one not in given]
        found = entry(harness, TOPIC, "orders", key)
        assert found.value == (default if elements is None else ",".join(elements)), sequence


def test_a_dry_run_changes_nothing(harness: ConfigHarness) -> None:
    assert alter(harness, TOPIC, "orders", ("retention.ms", SET, "1"), validate_only=True).error_code == 0
    assert entry(harness, TOPIC, "orders", "retention.ms").config_source == 5
    assert alter(harness, TOPIC, "orders", ("retention.ms", SET, "x"), validate_only=True).error_code == 40


def test_a_resource_changes_whole_or_not_at_all(harness: ConfigHarness) -> None:
    rejected = alter(harness, TOPIC, "orders", ("retention.ms", SET, "1"), ("segment.bytes", SET, "1"))
    assert rejected.error_code == ErrorCode.INVALID_CONFIG
    assert entry(harness, TOPIC, "orders", "retention.ms").config_source == 5


def test_the_resources_of_a_request_stand_each_for_itself(harness: ConfigHarness) -> None:
    def resource(resource_type: int, name: str, key: str, value: str) -> AlterConfigsResource:
        return AlterConfigsResource(resource_type, name, [AlterableConfig(key, SET, value)])

    resources = [
        resource(TOPIC, "nope", "retention.ms", "1"),
        resource(BROKER, "2", "message.max.bytes", "1"),
        resource(TOPIC, "orders", "retention.ms", "1"),
        resource(BROKER, "", "message.max.bytes", "x"),
        resource(3, "", "x", "x"),
    ]
    response = harness.call(IncrementalAlterConfigsRequest(resources=resources), 1)
    assert [(r.resource_type, r.resource_name) for r in response.responses] == [
        (r.resource_type, r.resource_name) for r in resources
    ]
    assert [r.error_code for r in response.responses] == [3, 42, 0, 42, 42]


def test_a_resource_or_key_that_stands_twice_is_refused(harness: ConfigHarness) -> None:
    twice = [AlterConfigsResource(TOPIC, "orders", []) for _ in range(2)]
    response = harness.call(IncrementalAlterConfigsRequest(resources=twice), 1)
    assert [r.error_code for r in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
    rejected = alter(harness, TOPIC, "orders", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert rejected.error_message == "Error due to duplicate config keys"


def test_logger_that_stands_twice_keeps_its_level(harness: ConfigHarness) -> None:
    """The broker changes it itself; a controller would refuse it as well."""
    logger = logging.getLogger("odradek.test.twice")
    changes = [AlterableConfig(logger.name, SET, "DEBUG")]
    twice = [AlterConfigsResource(LOGGER, "1", changes) for _ in range(2)]
    response = harness.call(IncrementalAlterConfigsRequest(resources=twice), 1)
    assert [r.error_code for r in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert logger.level == logging.NOTSET


def test_only_deleting_needs_no_value(harness: ConfigHarness) -> None:
    rejected = alter(harness, TOPIC, "orders", ("retention.ms", SET, None), ("cleanup.policy", APPEND, None))
    assert rejected.error_message == "Null value not supported for : retention.ms, cleanup.policy"
    assert alter(harness, TOPIC, "orders", ("retention.ms", DELETE, None)).error_code == 0


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (ErrorCode.INVALID_CONFIG, ("no.list", APPEND, "1")),
        (ErrorCode.INVALID_CONFIG, ("message.max.bytes", SUBTRACT, "1")),
        (ErrorCode.INVALID_REQUEST, ("message.max.bytes", 9, "1")),
        (ErrorCode.INVALID_REQUEST, ("message.max.bytes", SET, "-1")),
        (ErrorCode.INVALID_REQUEST, ("log.dirs", SET, "/x")),
        (ErrorCode.INVALID_REQUEST, ("num.io.threads", SET, "999")),
    ],
)
def test_a_broker_refuses_what_it_cannot_be(harness: ConfigHarness, error: ErrorCode, change: Change) -> None:
    assert alter(harness, BROKER, "1", change).error_code == error
    assert harness.config.values.dynamic_broker == {}


def test_the_older_request_takes_away_what_it_does_not_name(harness: ConfigHarness) -> None:
    assert replace(harness, TOPIC, "orders", retention_ms="1", segment_ms="2").error_code == 0
    assert replace(harness, TOPIC, "orders", segment_ms="3").error_code == 0
    assert entry(harness, TOPIC, "orders", "retention.ms").config_source == 5
    assert entry(harness, TOPIC, "orders", "segment.ms").value == "3"
    assert replace(harness, BROKER, "1", message_max_bytes="9").error_code == 0
    assert harness.config.get("message.max.bytes") == 9
    assert replace(harness, BROKER, "1", log_dirs="/x").error_code == ErrorCode.INVALID_REQUEST
    assert replace(harness, TOPIC, "orders", retention_ms=None).error_code == ErrorCode.INVALID_REQUEST
    assert replace(harness, LOGGER, "1", root="INFO").error_code == ErrorCode.INVALID_REQUEST


# Loggers.


def test_the_level_of_a_logger_is_shown_and_changed_at_once(harness: ConfigHarness) -> None:
    logger = logging.getLogger("odradek.test.levels")
    assert alter(harness, LOGGER, "1", (logger.name, SET, "DEBUG"), validate_only=True).error_code == 0
    assert logger.level == logging.NOTSET
    assert alter(harness, LOGGER, "1", (logger.name, SET, "DEBUG")).error_code == 0
    assert logger.isEnabledFor(logging.DEBUG)
    shown = entry(harness, LOGGER, "1", logger.name)
    assert (shown.value, shown.config_source) == ("DEBUG", 6)
    assert alter(harness, LOGGER, "1", (logger.name, DELETE, None)).error_code == 0
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("1", ("odradek.no.such.logger", SET, "DEBUG")),
        ("1", ("root", SET, "LOUD")),
        ("1", ("root", SET, "debug")),
        ("1", ("root", DELETE, None)),
        ("1", ("root", APPEND, "DEBUG")),
        ("1", ("root", 7, "DEBUG")),
        ("2", ("root", SET, "DEBUG")),
        ("x", ("root", SET, "DEBUG")),
    ],
)
def test_a_change_of_loggers_that_makes_no_sense_is_refused(harness: ConfigHarness, name: str, change: Change) -> None:
    before = logging.root.level
    assert alter(harness, LOGGER, name, change).error_code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
    assert logging.root.level == before


# Lists.


def test_version_0_lists_subscriptions_and_version_1_whatever_is_asked_for(harness: ConfigHarness) -> None:
    alter(harness, SUBSCRIPTION, "all", ("metrics", SET, "*"))
    alter(harness, GROUP, "readers", ("share.isolation.level", SET, "read_committed"))

    def listed(version: int, *types: int) -> list[tuple[int, str]]:
        response = harness.call(ListConfigResourcesRequest(resource_types=list(types)), version)
        assert response.error_code == 0
        return sorted((r.resource_type, r.resource_name) for r in response.config_resources)

    assert listed(0) == [(SUBSCRIPTION, "all")]
    everything = [(TOPIC, "orders"), (BROKER, "1"), (LOGGER, "1"), (SUBSCRIPTION, "all"), (GROUP, "readers")]
    assert listed(1) == everything
    assert listed(1, TOPIC, GROUP) == [(TOPIC, "orders"), (GROUP, "readers")]


def test_listing_an_unknown_type_is_refused(harness: ConfigHarness) -> None:
    response = harness.call(ListConfigResourcesRequest(resource_types=[3]), 1)
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
