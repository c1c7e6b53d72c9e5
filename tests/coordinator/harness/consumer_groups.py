"""Assignments in responses of consumer groups."""

from __future__ import annotations

from typing import Any


def given(response: Any) -> list[int] | None:
    """Returns the indexes of the partitions that a heartbeat's response assigns; None where it assigns nothing anew."""
    if response.assignment is None:
        return None
    return [index for topic in response.assignment.topic_partitions for index in topic.partitions]
