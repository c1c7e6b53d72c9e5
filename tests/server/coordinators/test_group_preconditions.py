"""Requests about groups: which the cluster's features and the configuration enable, who answers, and joined results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from odradek.metadata.features import GROUP_VERSION, STREAMS_VERSION
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import FeatureLevelRecord
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.coordinators.group_coordinator import (
    GROUP_COORDINATOR,
    consumer_groups_precondition,
    streams_groups_precondition,
    to_coordinator,
)
from odradek.server.coordinators.topic_responses import merged

from tests.server.harness.handler_services import HandlerServices
from tests.server.harness.images import image_with
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection

OFF = ErrorCode.UNSUPPORTED_VERSION


class SetProtocols(BrokerConfig):
    """A configuration with these protocols of groups, also with those that a file may not have."""

    def __init__(self, protocols: list[str]) -> None:
        super().__init__({})
        self._protocols = protocols

    def get(self, name: str) -> Any:  # type: ignore[override]
        return self._protocols if name == "group.coordinator.rebalance.protocols" else super().get(name)


def services(protocols: list[str], **levels: int) -> Any:
    levels = {name.replace("_", "."): level for name, level in levels.items()}
    records = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]
    return HandlerServices(SetProtocols(protocols), image=image_with(*records))


@pytest.mark.parametrize(
    ("protocols", "level", "error"),
    [
        (["classic", "consumer"], 1, ErrorCode.NONE),
        (["classic", "consumer"], 2, ErrorCode.NONE),
        (["classic", "consumer"], 0, OFF),
        (["classic", "streams"], 1, OFF),
        ([], 1, OFF),
    ],
)
def test_consumer_groups_need_their_feature_and_their_protocol(
    protocols: list[str], level: int, error: ErrorCode
) -> None:
    call: Any = None
    assert GROUP_VERSION == "group.version"
    assert consumer_groups_precondition(services(protocols, group_version=level), call) == error


@pytest.mark.parametrize(
    ("protocols", "level", "error"),
    [
        (["classic", "streams"], 1, ErrorCode.NONE),
        (["STREAMS"], 1, ErrorCode.NONE),
        (["classic", "streams"], 0, OFF),
        (["classic", "consumer"], 1, OFF),
    ],
)
def test_streams_groups_need_their_feature_and_their_protocol(
    protocols: list[str], level: int, error: ErrorCode
) -> None:
    call: Any = None
    assert STREAMS_VERSION == "streams.version"
    assert streams_groups_precondition(services(protocols, streams_version=level), call) == error


class Coordinating:
    """A node that notes the requests to the coordinators of its groups."""

    def __init__(self) -> None:
        self.coordinators = self.groups = self
        self.submitted: list[Any] = []

    def submit(self, *request: Any) -> None:
        self.submitted.append(request)


def test_coordinator_of_the_group_responses() -> None:
    node: Any = Coordinating()
    call: Any = NotedCalls(NotedConnection()).call(HeartbeatRequest(group_id="g"), 4)
    assert to_coordinator(node, call) is None and GROUP_COORDINATOR.handle is to_coordinator
    assert node.submitted == [("g", call.request, 4, call, call.reply)]


@dataclass
class TopicResult:
    """The results of a request about a topic, which have a number each."""

    name: str
    topic_id: bytes
    partitions: list[int]


def topic(name: str, *partitions: int, topic_id: bytes = bytes(16)) -> TopicResult:
    return TopicResult(name, topic_id, list(partitions))


def test_results_of_a_topic_are_joined_by_its_name_and_its_id() -> None:
    other = bytes([1]) * 16
    found = merged([topic("a", 1), topic("b", 2)], [topic("b", 3), topic("c", 4), topic("", 5, topic_id=other)])
    assert [(one.name, one.topic_id, one.partitions) for one in found] == [
        ("a", bytes(16), [1]),
        ("b", bytes(16), [2, 3]),
        ("c", bytes(16), [4]),
        ("", other, [5]),
    ]
