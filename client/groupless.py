"""Consumers of confluent-kafka that read partitions without a group, which needs READ on the topics and nothing more.

The library has no consumer without `group.id`, and looks for the coordinator of every group. An authorizer may deny this:
the denial arrives among the records, without a topic, and has no effect on what is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Message

#: Nothing is committed, no member joins, and no offset is stored.
GROUPLESS: dict[str, str | bool] = {
    "group.id": "odradek-cli",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
}


def of_partitions(messages: Sequence[Message]) -> list[Message]:
    """The messages without errors that are of the group: those have no topic."""
    return [message for message in messages if message.error() is None or message.topic() is not None]
