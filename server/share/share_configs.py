"""The settings of a share group on its partitions' leaders: the group's own configuration, else the broker's (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...coordinator.share_partition.partition import Limits
from ...metadata.configs.checks import duration_seconds
from ...metadata.features import SHARE_VERSION
from ...metadata.image import GROUP_RESOURCE
from ...protocol.records.errors import BatchError
from ...storage.segments.timestamps import LargeBatch

if TYPE_CHECKING:
    from ..node import Node
    from ..partitions.hosted_partition import HostedPartition

FIRST_WITH_DEAD_LETTERS = 2


def limits(broker: Node, group_id: str) -> Limits:
    own, config = broker.image.config(GROUP_RESOURCE, group_id), broker.config
    return Limits(
        int(own.get("share.delivery.count.limit") or config.get("group.share.delivery.count.limit")),
        int(own.get("share.partition.max.record.locks") or config.get("group.share.partition.max.record.locks")),
        lock_duration_ms(broker, group_id),
        own.get("share.renew.acknowledge.enable", "true").lower() != "false",
        _has_dead_letters(broker, own),
    )


def _has_dead_letters(broker: Node, own: Mapping[str, str]) -> bool:
    """Returns whether the group has a dead-letter queue and every broker of the cluster supports them (KIP-1191)."""
    is_known = broker.image.features.level(SHARE_VERSION) >= FIRST_WITH_DEAD_LETTERS
    return is_known and bool(own.get("errors.deadletterqueue.topic.name"))


def lock_duration_ms(broker: Node, group_id: str) -> int:
    own = broker.image.config(GROUP_RESOURCE, group_id).get("share.record.lock.duration.ms")
    return int(own or broker.config.get("group.share.record.lock.duration.ms"))


def is_read_committed(broker: Node, group_id: str) -> bool:
    return broker.image.config(GROUP_RESOURCE, group_id).get("share.isolation.level") == "read_committed"


def reset_offset(broker: Node, group_id: str, hosted: HostedPartition) -> int:
    """Returns the offset at which a new group starts: the end of the log unless configured otherwise."""
    strategy = broker.image.config(GROUP_RESOURCE, group_id).get("share.auto.offset.reset", "latest")
    if strategy == "earliest":
        return hosted.log_start_offset
    _, found, duration = strategy.partition("by_duration:")
    if found:
        seconds = duration_seconds(duration) or 0
        try:
            at = hosted.log.offset_for_timestamp(int(broker.now_ms() - seconds * 1000))
        except LargeBatch as large:
            # Starting at the first record is better than waiting for a thread.
            return large.header.base_offset
        except BatchError as damage:
            # Starting too early is better than skipping records.
            hosted.on_damage(hosted, damage)
            return hosted.log_start_offset
        return hosted.log_end_offset if at is None else at.offset
    return hosted.log_end_offset
