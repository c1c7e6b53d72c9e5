"""The work on replicas that changes of partitions begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...protocol.records.errors import BatchError
    from ...replication.isr import IsrProposal
    from .hosted_partition import HostedPartition
    from .replica import Replica


class ReplicaWork(Protocol):
    """The work on replicas that changes of partitions begin."""

    def follow(self, hosted: HostedPartition) -> None:
        """Follows the leader of a replicated partition, after it or its epoch has changed."""

    def propose(self, replica: Replica, proposal: IsrProposal) -> None:
        """Has the controller change the ISR of a partition that is led here."""

    def heal(self, hosted: HostedPartition) -> None:
        """Heals a partition that has damaged records."""

    def damage_met(self, hosted: HostedPartition, damage: BatchError) -> None:
        """Takes up damaged records that a read has met."""
