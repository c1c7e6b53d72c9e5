"""Handles the acknowledgements of share group members: validates them, passes them to the share partitions, and builds
one response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...coordinator.rejection import Rejection
from ...coordinator.share_partition import AckBatch, AckType
from ...coordinator.share_state import ShareKey
from ...metadata.image import TopicIdPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ..coordinators.scatter_and_gather import gather
from .share_sessions import SessionKey

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ...protocol.messages.share_acknowledge import AcknowledgeTopic
    from ...protocol.messages.share_fetch import ShareFetchTopic
    from ...protocol.schema import ResponseCallback
    from ..runtime.counters import Metrics, TopicMetrics
    from ..runtime.lazy import Lazy
    from ..runtime.metadata_cache import MetadataCache
    from .share_partitions import SharePartitions

WITH_RENEWALS = ShareAcknowledgeRequest.versions_with("is_renew_ack")
#: Kafka has no error message for the first of these.
UNKNOWN_TOPIC_ID = Rejection(ErrorCode.UNKNOWN_TOPIC_ID, None)
NO_SUCH_PARTITION = Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
UNKNOWN_PARTITION = Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
DENIED = Rejection(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
MALFORMED = Rejection(ErrorCode.INVALID_REQUEST, None)

Outcome = dict[TopicIdPartition, "Rejection | None"]


class Renewing(NamedTuple):
    """Renewals of a request: whether its version supports them, and whether it contains any (KIP-1222)."""

    is_known: bool
    is_announced: bool


class ShareAcknowledgements:
    """Handles acknowledgements for the share partitions that this broker leads."""

    def __init__(self, metadata: MetadataCache, metrics: Metrics, share_partitions: Lazy[SharePartitions]) -> None:
        self._metadata = metadata
        self._metrics = metrics
        self._share_partitions = share_partitions

    def acknowledge(
        self,
        session: SessionKey,
        topics: Sequence[AcknowledgeTopic | ShareFetchTopic],
        renewing: Renewing,
        done: Callable[[Outcome], None],
        denied: Set[bytes] = frozenset(),
    ) -> None:
        """Acknowledges records. `topics`: of a ShareFetch or a ShareAcknowledge. `done` gets None for each partition that
        accepted everything. `denied`: the topics that the client may not read.
        """
        outcome: Outcome = {}
        silent: list[TopicIdPartition] = []
        asked: list[TopicIdPartition] = []
        questions: list[Callable[[ResponseCallback], None]] = []
        for topic in topics:
            for data in topic.partitions:
                partition = (topic.topic_id, data.partition_index)
                batches = [
                    AckBatch(b.first_offset, b.last_offset, b.acknowledge_types) for b in data.acknowledgement_batches
                ]
                validation_error = self._reject(partition, batches, renewing, denied)
                if validation_error is not None:
                    outcome[partition] = validation_error
                elif batches:
                    asked.append(partition)
                    questions.append(partial(self._ask, session, partition, batches))
                else:
                    silent.append(partition)

        def answered(error_results: list[Rejection | None]) -> None:
            outcome.update(zip(asked, error_results, strict=True))
            failed = {topic_id for (topic_id, _), validation_error in outcome.items() if validation_error is not None}
            topic_ids = {topic_id for topic_id, _ in outcome}
            for topic_id, counters in topic_counters(self._metadata.image, self._metrics, topic_ids):
                counters.share_acknowledgements += 1
                counters.failed_share_acknowledgements += topic_id in failed
            if asked:
                # As in Kafka: a partition without acknowledgements gets a result only beside others.
                outcome.update(dict.fromkeys(silent))
            done(outcome)

        gather(questions, answered)

    def _ask(
        self,
        session: SessionKey,
        partition: TopicIdPartition,
        batches: list[AckBatch],
        done: Callable[[Rejection | None], None],
    ) -> None:
        share_partitions = self._share_partitions()
        led = share_partitions.get(ShareKey(session.group_id, *partition))
        if led is None:
            done(UNKNOWN_PARTITION)
            return

        def answered(validation_error: Rejection | None) -> None:
            if validation_error is None:
                _count(share_partitions.acknowledgements, batches)
            done(validation_error)

        led.acknowledge(session.member_id, batches, answered)

    def _reject(
        self, partition: TopicIdPartition, batches: list[AckBatch], renewing: Renewing, denied: Set[bytes]
    ) -> Rejection | None:
        topic_id, index = partition
        topic = self._metadata.image.topic_by_id(topic_id)
        if topic is None:
            return UNKNOWN_TOPIC_ID
        if not _are_well_formed(batches, renewing):
            return MALFORMED
        if topic_id in denied:
            return DENIED
        return None if index in topic.partitions else NO_SUCH_PARTITION


def topic_counters(
    image: MetadataImage, metrics: Metrics, topic_ids: set[bytes]
) -> Iterator[tuple[bytes, TopicMetrics]]:
    """Yields the counters of the topics that exist."""
    for topic_id in topic_ids:
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            yield topic_id, metrics.topic(topic.name)


def _count(acknowledgements: Counter[int], batches: list[AckBatch]) -> None:
    for first, last, types in batches:
        if len(types) == 1:
            acknowledgements[types[0]] += last - first + 1
        else:
            acknowledgements.update(types)


def _are_well_formed(batches: list[AckBatch], renewing: Renewing) -> bool:
    highest = AckType.RENEW if renewing.is_known else AckType.REJECT
    before = -1
    for first, last, types in batches:
        if first > last or first < before or not types:
            return False
        if len(types) > 1 and last - first + 1 != len(types):
            return False
        if not all(AckType.GAP <= kind <= highest for kind in types):
            return False
        if AckType.RENEW in types and not renewing.is_announced:
            return False
        before = last
    return True
