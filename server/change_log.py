"""Log lines about changes of the metadata.

The lines name changed topics, partitions, configuration, brokers, and leaders here.

One line for each thing up to `MOST_LINES` of a kind, then one with the number of the others: a publication may
bring ten thousand partitions. For the first image, which has all earlier state, there is a summary only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from ..client.shown_text import shown
from ..metadata.configs import ConfigResourceType
from ..metadata.delta import MetadataDelta
from ..metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, TopicImage
from ..metadata.topics_delta import TopicDelta

changes_log = logging.getLogger("odradek.metadata")
#: Lines of one kind in a publication.
MOST_LINES = 10
#: Topics whose partitions are checked for leaders here: some 5 ms of the loop.
MOST_TOPICS = 2000


def log_changes(node_id: int, before: MetadataImage, delta: MetadataDelta, image: MetadataImage) -> None:
    """`before` is what was published until now. Costs nothing where lines of this level are not logged."""
    if not changes_log.isEnabledFor(logging.INFO):
        return
    if before is EMPTY_IMAGE:
        _log_first(image)
        return
    if delta.topics:
        _log_lines("topics created", _created(delta, image))
        _log_lines("topics deleted", (f"topic {shown(topic.name)} deleted" for topic in delta.topics.deleted.values()))
        if len(delta.topics.changed) > MOST_TOPICS:
            changes_log.info("%d topics have changed", len(delta.topics.changed))
        else:
            changed = [one for id_, one in delta.topics.changed.items() if id_ not in delta.topics.created]
            _log_lines("topics with more partitions", _grown(changed))
            _log_leaders(node_id, delta)
    _log_lines("configurations changed", _configured(delta))
    _log_lines("brokers changed", _brokers(before, delta))
    for feature, level in delta.features.items():
        changes_log.info("feature %s is finalized at level %d", feature, level)


def _log_first(image: MetadataImage) -> None:
    partitions = sum(len(topic.partitions) for topic in image.topics.by_name.values())
    changes_log.info(
        "metadata loaded up to offset %d: %d topics with %d partitions, %d brokers",
        image.offset, len(image.topics.by_name), partitions, len(image.cluster.brokers),
    )  # fmt: skip


def _log_lines(kind: str, lines: Iterable[str]) -> None:
    more = 0
    for number, line in enumerate(lines):
        if number < MOST_LINES:
            changes_log.info("%s", line)
        else:
            more += 1
    if more:
        changes_log.info("%d more %s", more, kind)


def _created(delta: MetadataDelta, image: MetadataImage) -> Iterator[str]:
    for topic_id in delta.topics.created:
        topic = image.topics.by_id[topic_id]
        yield f"topic {shown(topic.name)} created: {_sizes(topic)}"


def _sizes(topic: TopicImage) -> str:
    replicas = {len(partition.replicas) for partition in topic.partitions.values()}
    factor = "/".join(map(str, sorted(replicas)))
    return f"{len(topic.partitions)} partitions, replication factor {factor}"


def _grown(changed: Iterable[TopicDelta]) -> Iterator[str]:
    for topic in changed:
        before = len(topic.before.partitions)
        added = sum(index >= before for index in topic.changed)
        if added:
            yield f"topic {shown(topic.before.name)}: {added} partitions added, {before + added} now"


def _log_leaders(node_id: int, delta: MetadataDelta) -> None:
    """Partitions of which this broker became the leader, or ceased to be."""
    taken: list[str] = []
    left: list[str] = []
    for topic in delta.topics.changed.values():
        for index, partition in topic.changed.items():
            before = topic.before.partitions.get(index)
            led = before is not None and before.leader == node_id
            if led != (partition.leader == node_id):
                (left if led else taken).append(f"{shown(topic.before.name)}-{index}")
    for names, verb in ((taken, "leads"), (left, "no longer leads")):
        if names:
            others = f" and {len(names) - MOST_LINES} more" if len(names) > MOST_LINES else ""
            changes_log.info(
                "this broker %s %d partitions: %s%s", verb, len(names), ", ".join(names[:MOST_LINES]), others
            )


def _configured(delta: MetadataDelta) -> Iterator[str]:
    """Names of keys only: a value may be a secret."""
    for (kind, name), values in delta.configs.items():
        known = {int(one): one.name.lower() for one in ConfigResourceType}
        yield f"configuration of {known.get(kind, kind)} {shown(name) or 'default'}: {shown(', '.join(sorted(values)))}"


def _brokers(before: MetadataImage, delta: MetadataDelta) -> Iterator[str]:
    for broker_id, now in delta.cluster.brokers.items():
        yield from _broker(broker_id, before.cluster.brokers.get(broker_id), now)


def _broker(broker_id: int, before: BrokerImage | None, now: BrokerImage | None) -> Iterator[str]:
    if now is None:
        yield f"broker {broker_id} unregistered"
        return
    if before is None or before.epoch != now.epoch:
        yield f"broker {broker_id} registered with epoch {now.epoch}"
        before = None
    was_fenced = before is None or before.fenced
    if was_fenced != now.fenced:
        yield f"broker {broker_id} {'fenced' if now.fenced else 'unfenced'}"
    if now.in_controlled_shutdown and not (before is not None and before.in_controlled_shutdown):
        yield f"broker {broker_id} is in controlled shutdown"
