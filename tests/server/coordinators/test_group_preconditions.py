"""Requests about groups: which the cluster's features and the configuration enable, who answers, and joined results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from odradek.metadata.features import GROUP_VERSION, STREAMS_VERSION
from odradek.protocol.errors import ErrorCode
from odradek.server.coordinators.group_coordinator import (
    GROUP_COORDINATOR,
    consumer_groups_precondition,
    streams_groups_precondition,
    to_coordinator,
)
from odradek.server.coordinators.topic_responses import merged

OFF = ErrorCode.UNSUPPORTED_VERSION


def services(protocols: list[str], **levels: int) -> Any:
    features = {name.replace("_", "."): level for name, level in levels.items()}
    return SimpleNamespace(
        config=SimpleNamespace(get=lambda key: protocols if key == "group.coordinator.rebalance.protocols" else None),
        metadata=SimpleNamespace(
            image=SimpleNamespace(features=SimpleNamespace(level=lambda name: features.get(name, 0)))
        ),
    )


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


def test_coordinator_of_the_group_responses() -> None:
    submitted: list[Any] = []
    node: Any = SimpleNamespace(
        coordinators=SimpleNamespace(groups=SimpleNamespace(submit=lambda *given: submitted.append(given)))
    )
    call: Any = SimpleNamespace(request=SimpleNamespace(group_id="g"), version=4, reply=lambda response: None)
    assert to_coordinator(node, call) is None and GROUP_COORDINATOR.handle is to_coordinator
    assert submitted == [("g", call.request, 4, call, call.reply)]


def topic(name: str, *partitions: int, topic_id: bytes = bytes(16)) -> Any:
    return SimpleNamespace(name=name, topic_id=topic_id, partitions=list(partitions))


def test_results_of_a_topic_are_joined_by_its_name_and_its_id() -> None:
    other = bytes([1]) * 16
    found = merged([topic("a", 1), topic("b", 2)], [topic("b", 3), topic("c", 4), topic("", 5, topic_id=other)])
    assert [(one.name, one.topic_id, one.partitions) for one in found] == [
        ("a", bytes(16), [1]),
        ("b", bytes(16), [2, 3]),
        ("c", bytes(16), [4]),
        ("", other, [5]),
    ]
