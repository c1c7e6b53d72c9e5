"""Answers about topics, some of which were given before the group was asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar


class TopicAnswer(Protocol):
    name: str
    topic_id: bytes
    partitions: list[Any]


Answer = TypeVar("Answer", bound=TopicAnswer)


def merged(error_results: Iterable[Answer], decided: Iterable[Answer]) -> list[Answer]:
    """A topic of which some partitions were refused is answered once."""
    answers = {(topic.topic_id, topic.name): topic for topic in error_results}
    for topic in decided:
        known = answers.setdefault((topic.topic_id, topic.name), topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(answers.values())
