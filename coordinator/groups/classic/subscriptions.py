"""The consumers' subscriptions in JoinGroup, of which the coordinator reads the topics."""

from __future__ import annotations

from collections.abc import Iterable

from ....protocol.codec import MalformedMessage, decode
from ....protocol.internal.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_BYTES = 2


def subscribed_topics(metadata_of_members: Iterable[bytes]) -> set[str] | None:
    """Returns all subscribed topics, or None if one member's metadata is not a subscription.

    Every version begins with the fields of version 0, so reading version 0 also works for later versions.
    """
    topics: set[str] = set()
    for metadata in metadata_of_members:
        try:
            subscription, _ = decode(ConsumerProtocolSubscription, 0, metadata, _VERSION_BYTES)
        except MalformedMessage:
            return None
        topics.update(subscription.topics)
    return topics
