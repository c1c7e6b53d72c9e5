"""A partition change: the leader, the ISR, the eligible leader replicas, and the end of a reassignment.

`PartitionChange` gets target values and finds the one PartitionChangeRecord that reaches them, or that nothing has
to change. The rules, in the order in which they are applied:

1. A reassignment ends once the ISR has all the replicas that stay.
2. While the ISR is smaller than the topic's minimum, members that leave it become *eligible leader replicas* (ELR).
   They have every committed record, so one of them may lead when the ISR is empty (KIP-966). Replicas of brokers
     that
   shut down uncleanly may have lost records and are dropped.
3. The leader stays if it may; else the first eligible replica leads. Preferred elections try the first replica
  first.
   If none is left, the last known leader may return alone; unclean elections take any live replica. Both may lose
   records, so the partition is then "recovering".
4. The leader epoch rises with a new leader, and if replicas were removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from ...metadata.image import NO_LEADER, TopicImage
from ...metadata.metadata_version import DIRECTORY_ASSIGNMENT, NO_EPOCH_BUMP_ON_ISR_SHRINK
from ...protocol.internal.cluster_metadata import PartitionChangeRecord
from ...protocol.node_ids import LEADER_UNCHANGED
from .state import RECOVERING, ControllerState

RECOVERED = 0


class Election(Enum):
    ONLINE = "the leader, or any replica that may lead"
    PREFERRED = "the preferred replica where it may lead"
    UNCLEAN = "any replica that lives where none may lead"


class PartitionChange:
    def __init__(
        self,
        state: ControllerState,
        topic: TopicImage,
        index: int,
        is_acceptable_leader: Callable[[int], bool] | None = None,
    ) -> None:
        """`is_acceptable_leader`: whether a broker may lead. By default, active brokers may."""
        partition = topic.partitions[index]
        self.state = state
        self.topic = topic
        self.index = index
        self.partition = partition
        self.isr = list(partition.isr)
        self.replicas = list(partition.replicas)
        self.removing = list(partition.removing_replicas)
        self.adding = list(partition.adding_replicas)
        self.elr = list(partition.elr)
        self.recovery_state = partition.leader_recovery_state
        self.unclean_shutdowns: Sequence[int] = ()
        self.directories = dict(zip(partition.replicas, partition.directories))
        self.election = Election.ONLINE
        self._is_acceptable = is_acceptable_leader or state.is_active

    def record(self) -> PartitionChangeRecord | None:
        """Returns the record that brings the partition to the target values; None if it has them."""
        record = PartitionChangeRecord(partition_id=self.index, topic_id=self.topic.id)
        self._complete_reassignment()
        if self.state.elr_enabled:
            self._find_eligible_leaders()
        self._elect(record)
        self._raise_epoch_for_lost_replicas(record)
        self._set_eligible_leaders(record)
        self._set_isr(record)
        self._set_last_known_leader(record)
        self._set_assignment(record)
        if self.recovery_state != self.partition.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        return None if record == PartitionChangeRecord(partition_id=self.index, topic_id=self.topic.id) else record

    def _complete_reassignment(self) -> None:
        if not self.removing and not self.adding:
            return
        isr = [broker for broker in self.isr if broker not in self.removing]
        replicas = [broker for broker in self.replicas if broker not in self.removing]
        if isr and replicas and set(replicas) <= set(isr):
            self.isr, self.replicas, self.removing, self.adding = isr, replicas, [], []

    def _find_eligible_leaders(self) -> None:
        if len(self.isr) >= self.state.min_isr(self.topic):
            self.elr = []
            return
        gone = {*self.isr, *self.unclean_shutdowns}
        self.elr = [broker for broker in sorted({*self.elr, *self.partition.isr}) if broker not in gone]

    # Leader election.

    def _elect(self, record: PartitionChangeRecord) -> None:
        leader, unclean = self._elected()
        if leader == self.partition.leader:
            return
        if leader in self.elr:
            self.isr = [leader]
            self.elr.remove(leader)
        record.leader = leader
        if unclean:
            record.isr = [leader]
            if self.partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = self.recovery_state = RECOVERING

    def _elected(self) -> tuple[int, bool]:
        """Returns the new leader, and whether the election may lose records."""
        first = [self.replicas[0]] if self.election is Election.PREFERRED else []
        for broker in (*first, self.partition.leader, *self.replicas):
            if self._may_lead(broker):
                return broker, False
        if self._may_return():
            return self.partition.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for broker in self.replicas:
                if self._lives(broker):
                    return broker, True
        return NO_LEADER, False

    def _may_lead(self, broker: int) -> bool:
        eligible = self.isr or self.elr
        return broker in eligible and self._lives(broker)

    def _lives(self, broker: int) -> bool:
        if broker not in self.directories or not self._is_acceptable(broker):
            return False
        registered = self.state.image.broker(broker)
        return registered is not None and registered.has_online_directory(self.directories[broker])

    def _may_return(self) -> bool:
        """Returns whether the last known leader may return: no other replica is left. At most one is kept."""
        if not self.state.elr_enabled or self.elr or self.isr:
            return False
        last = self.partition.last_known_elr
        return len(last) == 1 and self._lives(last[0])

    # Fields of the record.

    def _raise_epoch_for_lost_replicas(self, record: PartitionChangeRecord) -> None:
        if record.leader == LEADER_UNCHANGED and not set(self.partition.replicas) <= set(self.replicas):
            record.leader = self.partition.leader

    def _set_eligible_leaders(self, record: PartitionChangeRecord) -> None:
        if record.isr is not None or not self.state.elr_enabled:
            self.elr = []
        if tuple(self.elr) != self.partition.elr:
            record.eligible_leader_replicas = self.elr

    def _set_isr(self, record: PartitionChangeRecord) -> None:
        may_be_empty = self.state.elr_enabled
        if record.isr is None and (self.isr or may_be_empty) and tuple(self.isr) != self.partition.isr:
            record.isr = self.isr
        old_version = self.state.image.features.metadata_version < NO_EPOCH_BUMP_ON_ISR_SHRINK
        shrinks = record.isr is not None and not set(self.partition.isr) <= set(record.isr)
        if old_version and shrinks and record.leader == LEADER_UNCHANGED:
            record.leader = self.partition.leader

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        """Keeps the last known leader while the partition has no leader."""
        if not self.state.elr_enabled:
            return
        last, leader = self.partition.last_known_elr, self.partition.leader
        if record.isr == [] and last != (leader,):
            record.last_known_elr = [leader]
        elif last and (record.leader >= 0 or (NO_LEADER not in (leader, record.leader))):
            record.last_known_elr = []

    def _set_assignment(self, record: PartitionChangeRecord) -> None:
        directories = [
            self.directories[broker] if broker in self.directories else self.state.default_directory(broker)
            for broker in self.replicas
        ]
        named = self.state.image.features.metadata_version >= DIRECTORY_ASSIGNMENT
        if named and tuple(directories) != self.partition.directories:
            record.directories = directories
        if tuple(self.replicas) != self.partition.replicas:
            record.replicas = self.replicas
        if tuple(self.removing) != self.partition.removing_replicas:
            record.removing_replicas = self.removing
        if tuple(self.adding) != self.partition.adding_replicas:
            record.adding_replicas = self.adding
