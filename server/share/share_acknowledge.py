"""Handles the acknowledgements of share group members: validates them, passes them to the share partitions, and builds
one response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...coordinator.share_partition.partition import AckBatch, AckType, Refusal
from ...coordinator.share_state.state import ShareKey
from ...protocol.errors import ErrorCode
from ..runtime.gather import gather
from .share_sessions import Place, SessionKey

if TYPE_CHECKING:
    from ..node import Node
    from ..runtime.counters import TopicMetrics

RENEW_VERSION = 2
#: Kafka has no error message for the first of these.
UNKNOWN_TOPIC_ID = Refusal(ErrorCode.UNKNOWN_TOPIC_ID, None)
NO_SUCH_PARTITION = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
UNKNOWN_PARTITION = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
MALFORMED = Refusal(ErrorCode.INVALID_REQUEST, None)

Outcome = dict[Place, "Refusal | None"]


class Renewing(NamedTuple):
    """Whether the request version supports renewals, and whether the request contains renewals (KIP-1222)."""

    is_known: bool
    is_announced: bool


def acknowledge(
    broker: Node,
    session: SessionKey,
    topics: Sequence[Any],
    renewing: Renewing,
    done: Callable[[Outcome], None],
) -> None:
    """Acknowledges records. `topics`: of a ShareFetch or a ShareAcknowledge. `done` gets None for each partition that
    accepted everything.
    """
    outcome: Outcome = {}
    silent: list[Place] = []
    places: list[Place] = []
    questions: list[Callable[[Callable[[Any], None]], None]] = []
    for topic in topics:
        for partition in topic.partitions:
            place = (topic.topic_id, partition.partition_index)
            batches = [
                AckBatch(b.first_offset, b.last_offset, b.acknowledge_types) for b in partition.acknowledgement_batches
            ]
            refusal = _refuse(broker, place, batches, renewing)
            if refusal is not None:
                outcome[place] = refusal
            elif batches:
                places.append(place)
                questions.append(partial(_ask, broker, session, place, batches))
            else:
                silent.append(place)

    def answered(refusals: list[Refusal | None]) -> None:
        outcome.update(zip(places, refusals, strict=True))
        failed = {place[0] for place, refusal in outcome.items() if refusal is not None}
        for topic_id, counters in topic_counters(broker, {place[0] for place in outcome}):
            counters.share_acknowledgements += 1
            counters.failed_share_acknowledgements += topic_id in failed
        if places:
            # As in Kafka: a partition without acknowledgements gets a result only beside others.
            outcome.update(dict.fromkeys(silent))
        done(outcome)

    gather(questions, answered)


def topic_counters(broker: Node, topic_ids: set[bytes]) -> Iterator[tuple[bytes, TopicMetrics]]:
    for topic_id in topic_ids:
        topic = broker.image.topic_by_id(topic_id)
        if topic is not None:
            yield topic_id, broker.metrics.topic(topic.name)


def _ask(
    broker: Node,
    session: SessionKey,
    place: Place,
    batches: list[AckBatch],
    done: Callable[[Refusal | None], None],
) -> None:
    led = broker.share_partitions().get(ShareKey(session.group_id, *place))
    if led is None:
        done(UNKNOWN_PARTITION)
        return

    def answered(refusal: Refusal | None) -> None:
        if refusal is None:
            _count(broker.share_partitions().acknowledgements, batches)
        done(refusal)

    led.acknowledge(session.member_id, batches, answered)


def _count(acknowledgements: Counter[int], batches: list[AckBatch]) -> None:
    for first, last, types in batches:
        if len(types) == 1:
            acknowledgements[types[0]] += last - first + 1
        else:
            acknowledgements.update(types)


def _refuse(broker: Node, place: Place, batches: list[AckBatch], renewing: Renewing) -> Refusal | None:
    topic = broker.image.topic_by_id(place[0])
    if topic is None:
        return UNKNOWN_TOPIC_ID
    if not _are_well_formed(batches, renewing):
        return MALFORMED
    return None if place[1] in topic.partitions else NO_SUCH_PARTITION


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
