"""Responses about topics, part of which were made before the coordinator got the request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar


class TopicResponse(Protocol):
    name: str
    topic_id: bytes
    partitions: list[Any]


Response = TypeVar("Response", bound=TopicResponse)


def merged(error_results: Iterable[Response], decided: Iterable[Response]) -> list[Response]:
    """Joins the results of a topic of which some partitions were rejected before."""
    results = {(topic.topic_id, topic.name): topic for topic in error_results}
    for topic in decided:
        known = results.setdefault((topic.topic_id, topic.name), topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(results.values())
