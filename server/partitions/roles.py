"""The roles of replicas: leaders and followers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...metadata.image import NO_LEADER

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage, PartitionImage
    from ..runtime.clock import Clock
    from .hosted_partition import HostedPartition


class RoleAssignment:
    """Gives replicas their roles.

    `broker_epoch` returns the epoch of this broker's registration. `follow` is called with each replicated partition
    whose leader or epoch changed, `heal` with each one that has damaged records.
    """

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        broker_epoch: Callable[[], int],
        follow: Callable[[HostedPartition], object],
        heal: Callable[[HostedPartition], object],
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._follow = follow
        self._heal = heal

    def assign(self, image: MetadataImage, hosted: HostedPartition, registration: PartitionImage) -> None:
        if registration.leader == self._node_id and not self._is_registered(image):
            registration = registration._replace(leader=NO_LEADER)
        changed = hosted.take_role(registration, self._clock.now_ms())
        if changed and len(registration.replicas) > 1:
            self._follow(hosted)
        if hosted.log.damage:
            self._heal(hosted)

    def _is_registered(self, image: MetadataImage) -> bool:
        """Returns False while the metadata still describes this broker's life before a crash. The broker led then, and
        may have lost records: it leads nothing, and writes nothing, in an epoch of that life.
        """
        own = image.broker(self._node_id)
        return own is not None and own.epoch == self._broker_epoch()
