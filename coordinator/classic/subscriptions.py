"""What consumers say of themselves in JoinGroup, as far as the coordinator reads it: the topics they subscribe to."""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.codec import MalformedMessage, decode
from ...protocol.internal.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_BYTES = 2


def subscribed_topics(metadata_of_members: Iterable[bytes]) -> set[str] | None:
    """All topics, or None when one member's metadata is not a subscription.

    Every version begins with the fields of version 0, so what is read as that is right for versions to come.
    """
    topics: set[str] = set()
    for metadata in metadata_of_members:
        try:
            subscription, _ = decode(ConsumerProtocolSubscription, 0, metadata, _VERSION_BYTES)
        except MalformedMessage:
            return None
        topics.update(subscription.topics)
    return topics
