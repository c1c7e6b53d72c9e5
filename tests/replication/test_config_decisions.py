"""Changes of configurations that the controller decides: names, existence, operations, and the policy of a user."""

from __future__ import annotations

import random
from typing import Any

import pytest
from odradek.metadata.mirror_keys import FOLLOWED_CONFIGS, OF_MIRRORS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import ConfigRecord, TopicRecord
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    LegacyAlterableConfig,
    LegacyAlterConfigsResource,
)
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.replication.controller.controller import Controller
from odradek.replication.controller.policies import ConfigAlteration, Policies, PolicyViolation

from tests.replication.controller_transcript import CLUSTER_ID, NODE_ID, Transcript

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


class AlterPolicy:
    """Remembers what it was asked, and raises `violated` if there is one."""

    def __init__(self, violated: Exception | None = None) -> None:
        self.asked: list[tuple[int, str, dict[str, str | None]]] = []
        self.violated = violated

    def validate(self, request: ConfigAlteration) -> None:
        self.asked.append((int(request.resource_type), request.resource_name, dict(request.configs)))
        if self.violated is not None:
            raise self.violated


def cluster(policy: AlterPolicy | None = None) -> Transcript:
    """Returns a cluster of broker 0 with the topic `t`."""
    transcript = Transcript()
    transcript.controller = Controller(
        NODE_ID, CLUSTER_ID, transcript.static, random.Random(1), policies=Policies(alter_config=policy)
    )
    topics = "[{'name':'t','num_partitions':1,'replication_factor':1}]"
    transcript.run(f'> broker 0\n> CreateTopics topics="{topics}"\n')
    return transcript


def alter(
    transcript: Transcript, resource: int, name: str, *operations: tuple[str, int, str | None]
) -> tuple[ErrorCode, dict[str, str | None]]:
    """Returns the error, and what became of the configs."""
    configs = [AlterableConfig(key, operation, value) for key, operation, value in operations]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(resource, name, configs)])
    return outcome(transcript, request)


def replace(
    transcript: Transcript, resource: int, name: str, **values: str | None
) -> tuple[ErrorCode, dict[str, str | None]]:
    configs = [LegacyAlterableConfig(key.replace("_", "."), value) for key, value in values.items()]
    return outcome(transcript, AlterConfigsRequest([LegacyAlterConfigsResource(resource, name, configs)]))


def outcome(transcript: Transcript, request: Any) -> tuple[ErrorCode, dict[str, str | None]]:
    result = transcript.controller.handle(request, 1)
    transcript._replay(result.records)
    records = [one for one in result.records if isinstance(one, ConfigRecord)]
    response: Any = result.response
    return ErrorCode(response.responses[0].error_code), {one.name: one.value for one in records}


@pytest.mark.parametrize(
    ("resource", "name", "error"),
    [
        (BROKER, "", ErrorCode.NONE),
        (BROKER, "0", ErrorCode.NONE),
        (BROKER, "9", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, str(NODE_ID), ErrorCode.NONE),
        (BROKER, "-1", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ErrorCode.NONE),
        (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ErrorCode.NONE),
        (METRICS, "m", ErrorCode.NONE),
        (0, "t", ErrorCode.UNSUPPORTED_VERSION),
        (3, "t", ErrorCode.UNSUPPORTED_VERSION),
        (8, "0", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resource_is_valid_and_exists(resource: int, name: str, error: ErrorCode) -> None:
    assert alter(cluster(), resource, name) == (error, {})
    if (resource, name) == (BROKER, ""):
        error = ErrorCode.INVALID_CONFIG  # min.insync.replicas of the cluster may not be removed while ELR is enabled
    assert replace(cluster(), resource, name) == (error, {})


@pytest.mark.parametrize(
    ("before", "operation", "operand", "after"),
    [
        ("delete", APPEND, "compact", "delete,compact"),
        ("delete", APPEND, "delete", None),
        ("delete,compact", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "delete", None),
        (None, APPEND, "compact", "delete,compact"),
        ("delete,compact", APPEND, "compact,delete", None),
        ("compact", SET, "delete", "delete"),
        ("compact", SET, "compact", None),
    ],
)
def test_operation_changes_a_list_of_a_topic(
    before: str | None, operation: int, operand: str, after: str | None
) -> None:
    transcript = cluster()
    if before is not None:
        alter(transcript, TOPIC, "t", ("cleanup.policy", SET, before))
    changes = {} if after is None else {"cleanup.policy": after}
    assert alter(transcript, TOPIC, "t", ("cleanup.policy", operation, operand)) == (ErrorCode.NONE, changes)


@pytest.mark.parametrize(
    ("key", "operation", "error"),
    [
        ("retention.ms", APPEND, ErrorCode.INVALID_CONFIG),
        ("retention.ms", SUBTRACT, ErrorCode.INVALID_CONFIG),
        ("retention.ms", 4, ErrorCode.INVALID_REQUEST),
        ("retention.ms", -1, ErrorCode.INVALID_REQUEST),
        ("retention.ms", DELETE, ErrorCode.NONE),
        ("retention.ms", SET, ErrorCode.NONE),
        ("no.such.key", SET, ErrorCode.INVALID_CONFIG),
    ],
)
def test_operation_must_be_known_and_fit_the_key(key: str, operation: int, error: ErrorCode) -> None:
    transcript = cluster()
    code, changes = alter(transcript, TOPIC, "t", (key, operation, "5"))
    assert code == error and changes == ({key: "5"} if (key, operation) == ("retention.ms", SET) else {})


def test_unchanged_value_of_a_broker_is_recorded_again_and_of_a_topic_is_not() -> None:
    transcript = cluster()
    for _ in range(2):
        assert alter(transcript, BROKER, "0", ("log.cleaner.threads", SET, "2"))[1] == {"log.cleaner.threads": "2"}
    assert alter(transcript, TOPIC, "t", ("retention.ms", SET, "5"))[1] == {"retention.ms": "5"}
    assert alter(transcript, TOPIC, "t", ("retention.ms", SET, "5"))[1] == {}


def test_keys_that_a_replacement_does_not_name_are_deleted() -> None:
    transcript = cluster()
    replace(transcript, TOPIC, "t", retention_ms="5", segment_ms="9")
    assert replace(transcript, TOPIC, "t", segment_ms="9") == (ErrorCode.NONE, {"retention.ms": None})
    assert replace(transcript, TOPIC, "t", segment_ms=None) == (ErrorCode.NONE, {"segment.ms": None})


def test_resource_that_is_named_twice_is_an_error_for_both() -> None:
    one = AlterConfigsResource(TOPIC, "t", [AlterableConfig("retention.ms", SET, "5")])
    other = AlterConfigsResource(GROUP, "t", [])
    result = cluster().controller.handle(IncrementalAlterConfigsRequest([one, one, other]), 1)
    response: Any = result.response
    codes = [made.error_code for made in response.responses]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, ErrorCode.NONE] and result.records == []


# ---- the policy of a user


@pytest.mark.parametrize(
    ("violated", "code", "message"),
    [
        (None, ErrorCode.NONE, None),
        (PolicyViolation("not this"), ErrorCode.POLICY_VIOLATION, "not this"),
        (PolicyViolation(), ErrorCode.POLICY_VIOLATION, None),
        (ValueError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ],
)
def test_policy_decides_about_changed_keys(violated: Exception | None, code: ErrorCode, message: str | None) -> None:
    policy = AlterPolicy(violated)
    transcript = cluster(policy)
    configs = [AlterableConfig("retention.ms", SET, "5")]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, "t", configs)])
    result = transcript.controller.handle(request, 1)
    response: Any = result.response
    made = response.responses[0]
    assert (made.error_code, made.error_message) == (code, message)
    assert policy.asked == [(TOPIC, "t", {"retention.ms": "5"})] and bool(result.records) == (violated is None)


def test_policy_does_not_see_keys_that_a_replacement_deletes() -> None:
    policy = AlterPolicy()
    transcript = cluster(policy)
    replace(transcript, TOPIC, "t", retention_ms="5")
    replace(transcript, TOPIC, "t", segment_ms="9")
    assert policy.asked == [(TOPIC, "t", {"retention.ms": "5"}), (TOPIC, "t", {"segment.ms": "9"})]


@pytest.mark.parametrize("configs", [{}, {"retention.ms": "5"}])
@pytest.mark.parametrize("refuses", [False, True])
def test_policy_decides_about_the_configs_of_a_new_topic_that_has_some(configs: dict[str, str], refuses: bool) -> None:
    policy = AlterPolicy()
    transcript = cluster(policy)
    assert policy.asked == []
    policy.violated = PolicyViolation("no") if refuses else None
    asked = [CreatableTopicConfig(name, value) for name, value in configs.items()]
    result = transcript.controller.handle(CreateTopicsRequest([CreatableTopic("u", 1, 1, configs=asked)], 1000), 7)
    assert policy.asked == ([(TOPIC, "u", configs)] if configs else [])
    is_created = any(isinstance(record, TopicRecord) for record in result.records)
    assert is_created == (not configs or not refuses)


def mirror(transcript: Transcript) -> None:
    error, _ = alter(transcript, TOPIC, "t", ("mirror.name", SET, "dr"), ("mirror.partitions", SET, "2"))
    assert error is ErrorCode.NONE


def test_alter_configs_that_does_not_name_the_link_does_not_make_a_mirror_writable() -> None:
    transcript = cluster()
    mirror(transcript)
    for values in ({}, {"retention_ms": "5"}, {"min_insync_replicas": "1"}):
        assert replace(transcript, TOPIC, "t", **values) == (ErrorCode.POLICY_VIOLATION, {})
    error, changed = replace(transcript, TOPIC, "t", mirror_name="dr", mirror_partitions="2", min_insync_replicas="1")
    assert error is ErrorCode.NONE and changed == {"min.insync.replicas": "1"}


@pytest.mark.parametrize("key", [*FOLLOWED_CONFIGS, *OF_MIRRORS])
def test_config_that_follows_the_source_is_refused_on_a_mirror(key: str) -> None:
    transcript = cluster()
    mirror(transcript)
    if key != "mirror.name":  # a change that names the link is the link's own
        assert alter(transcript, TOPIC, "t", (key, DELETE, None)) == (ErrorCode.POLICY_VIOLATION, {})
    assert alter(transcript, TOPIC, "t", ("unclean.leader.election.enable", SET, "true"))[0] is ErrorCode.NONE


@pytest.mark.parametrize(("count", "error"), [(2, ErrorCode.NONE), (3, ErrorCode.POLICY_VIOLATION)])
def test_mirror_gets_as_many_partitions_as_its_source(count: int, error: ErrorCode) -> None:
    transcript = cluster()
    mirror(transcript)
    grown = CreatePartitionsTopic(name="t", count=count, assignments=None)
    result = transcript.controller.handle(CreatePartitionsRequest(topics=[grown], timeout_ms=30_000), 3)
    response: Any = result.response
    (found,) = response.results
    assert found.error_code == error and len(result.records) == (not error)
    assert not error or "mirror of link dr and read-only" in found.error_message
