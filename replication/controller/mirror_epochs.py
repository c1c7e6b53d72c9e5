"""A new epoch for the leader of a mirrored partition, before it cuts its log (docs/development/mirror.md).

The leader stays. Records that it writes after the cut have the new epoch, so a replica or a consumer that has records which
were cut off finds the difference as after an election (KIP-101, KIP-320).
"""

from __future__ import annotations

import re

from ...metadata.image import NO_LEADER
from ...protocol.internal.cluster_metadata import PartitionChangeRecord
from .state import ControllerState

_PARTITION_AND_EPOCH = re.compile(r"(\d{1,9}):(\d{1,9})")


def new_epoch(state: ControllerState, name: str, cut: str | None) -> list[PartitionChangeRecord]:
    """The record for the config `mirror.cut`; none where the epoch has ended already."""
    wanted, topic = _PARTITION_AND_EPOCH.fullmatch(cut or ""), state.image.topic(name)
    if wanted is None or topic is None:
        return []
    index, epoch = int(wanted[1]), int(wanted[2])
    partition = topic.partitions.get(index)
    if partition is None or partition.leader == NO_LEADER or partition.leader_epoch != epoch:
        return []
    return [PartitionChangeRecord(partition_id=index, topic_id=topic.id, leader=partition.leader)]
