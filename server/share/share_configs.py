"""The configuration of share groups on their partitions' leaders: the group's own, else the broker's (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...coordinator.share_partition import Limits
from ...metadata.configs.checks import duration_seconds
from ...metadata.features import SHARE_VERSION
from ...metadata.image import GROUP_RESOURCE
from ...protocol.feature_levels import SHARE_GROUPS_HAVE_DEAD_LETTERS
from ...protocol.records.errors import BatchError
from ...storage.segments.timestamps import LargeBatch

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.clock import Clock
    from ..runtime.metadata_cache import MetadataCache


_LATEST = "latest"


class ShareConfigs:
    """Reads the configuration of share groups from the published image and the broker's configuration."""

    def __init__(self, config: BrokerConfig, metadata: MetadataCache, clock: Clock) -> None:
        self._config = config
        self._metadata = metadata
        self._clock = clock

    @property
    def image(self) -> MetadataImage:
        """The image that the configuration is read from: with the same image, it is the same."""
        return self._metadata.image

    def limits(self, group_id: str) -> Limits:
        own, config = self._of_group(group_id), self._config
        return Limits(
            int(own.get("share.delivery.count.limit") or config.get("group.share.delivery.count.limit")),
            int(own.get("share.partition.max.record.locks") or config.get("group.share.partition.max.record.locks")),
            self.lock_duration_ms(group_id),
            own.get("share.renew.acknowledge.enable", "true").lower() != "false",
            self._has_dead_letters(own),
        )

    def lock_duration_ms(self, group_id: str) -> int:
        own = self._of_group(group_id).get("share.record.lock.duration.ms")
        return int(own or self._config.get("group.share.record.lock.duration.ms"))

    def is_read_committed(self, group_id: str) -> bool:
        return self._of_group(group_id).get("share.isolation.level") == "read_committed"

    def reset_offset(self, group_id: str, hosted: HostedPartition) -> int:
        """Returns the offset at which a new group starts: the end of the log unless configured otherwise."""
        if self._reset_strategy(group_id) == "earliest":
            return hosted.log_start_offset
        timestamp = self.reset_timestamp(group_id)
        if timestamp is not None:
            try:
                at = hosted.open_log().offset_for_timestamp(timestamp)
            except LargeBatch as large:
                # Starting at the first record is better than waiting for a thread.
                return large.header.base_offset
            except BatchError as damage:
                # Starting too early is better than skipping records.
                hosted.on_damage(hosted, damage)
                return hosted.log_start_offset
            return hosted.log_end_offset if at is None else at.offset
        return hosted.log_end_offset

    def reset_timestamp(self, group_id: str) -> int | None:
        """Returns the time from which a new group gets records; None if it starts at an end of the log."""
        _, found, duration = self._reset_strategy(group_id).partition("by_duration:")
        return int(self._clock.now_ms() - (duration_seconds(duration) or 0) * 1000) if found else None

    def _reset_strategy(self, group_id: str) -> str:
        return self._of_group(group_id).get("share.auto.offset.reset", _LATEST)

    def _of_group(self, group_id: str) -> Mapping[str, str]:
        return self._metadata.image.config(GROUP_RESOURCE, group_id)

    def _has_dead_letters(self, own: Mapping[str, str]) -> bool:
        """Returns whether the group has a dead-letter queue and every broker of the cluster supports them (KIP-1191)."""
        is_known = self._metadata.image.features.level(SHARE_VERSION) >= SHARE_GROUPS_HAVE_DEAD_LETTERS
        return is_known and bool(own.get("errors.deadletterqueue.topic.name"))
