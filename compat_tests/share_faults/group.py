"""The brokers' view of a share group and its topic. Methods return None if no broker answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from odradek.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.uuids import uuid_to_text

from compat_tests.asking import GROUP, SHARE, ask, ask_any, coordinator_of, described

_GROUP_RESOURCE, _SET = 32, 0


class SharedTopic:
    """A topic and the share group that reads it."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group

    def configure(self, settings: Mapping[str, str]) -> bool:
        configs = [AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in settings.items()]
        resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=self.group, configs=configs)
        response = ask_any(self.bootstrap, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        return response is not None and not response.responses[0].error_code

    def allow_queues(self) -> bool:
        """Enables dead-letter queues: level 2 of `share.version` (KIP-1191)."""
        update = FeatureUpdateKey(feature="share.version", max_version_level=2)
        response = ask_any(self.bootstrap, UpdateFeaturesRequest(feature_updates=[update]), 2)
        return response is not None and not response.error_code

    def coordinator(self) -> int | None:
        """Returns the node that coordinates the group."""
        found = coordinator_of(self.bootstrap, self.group, GROUP)
        return None if found is None else int(found.node_id)

    def coordinator_of_state(self, partition: int) -> int | None:
        """Returns the node of the share coordinator for a partition of the group."""
        topic = described(self.bootstrap, self.topic)
        if topic is None:
            return None
        found = coordinator_of(self.bootstrap, f"{self.group}:{uuid_to_text(topic.topic_id)}:{partition}", SHARE)
        return None if found is None else int(found.node_id)

    def lag(self, empty: Collection[int] = ()) -> int | None:
        """Returns the number of records of the topic that are not finished; None while it is unknown. Brokers show none for
        partitions to which no record came: `empty`.
        """
        found, topic = coordinator_of(self.bootstrap, self.group, GROUP), described(self.bootstrap, self.topic)
        if found is None or topic is None:
            return None
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=None)
        response = ask(f"{found.host}:{found.port}", DescribeShareGroupOffsetsRequest(groups=[asked]), 1)
        if response is None or response.groups[0].error_code:
            return None
        parts = [part for one in response.groups[0].topics for part in one.partitions]
        if len(parts) < len(topic.partitions) or any(part.error_code for part in parts):
            return None
        lags = [part.lag for part in parts if part.partition_index not in empty]
        return None if any(lag < 0 for lag in lags) else sum(lags)

    def leader_changes(self) -> dict[int, int] | None:
        """Returns the leader epoch of each partition: the number of changes since it was created."""
        topic = described(self.bootstrap, self.topic)
        return None if topic is None else {part.partition_index: part.leader_epoch for part in topic.partitions}
