"""The share partitions of the partitions that this broker leads. Each is created when a member first fetches from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.records.batch import NO_LEADER_EPOCH
from .led_share_partition import LeaderParts, LedSharePartition

if TYPE_CHECKING:
    from ...coordinator.share_state import ShareKey
    from ..controller.leaders import Leaders
    from ..coordinators.persister_requests import Persister
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..partitions.remote_port import RemotePort
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from .dead_letters import DeadLetters
    from .share_configs import ShareConfigs

#: Requests of share groups name no leader epoch.


class SharePartitions:
    """The share partitions of all groups on this broker."""

    def __init__(
        self,
        partitions: Partitions,
        leaders: Leaders,
        persister: Lazy[Persister],
        dead_letters: Lazy[DeadLetters],
        configs: ShareConfigs,
        clock: Clock,
    ) -> None:
        self._partitions = partitions
        self._leaders = leaders
        self._persister = persister
        self._parts = LeaderParts(configs, dead_letters, clock)
        self._led: dict[ShareKey, LedSharePartition] = {}
        #: Type of acknowledgement -> number of records acknowledged with it.
        self.acknowledgements: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._led)

    @property
    def remote(self) -> RemotePort | None:
        """The port of tiered storage; None without it."""
        return self._partitions.remote

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(list(self._led.values()))

    def get(self, key: ShareKey) -> LedSharePartition | None:
        return self._led.get(key)

    def open_led(self, key: ShareKey) -> LedSharePartition | int:
        """Returns the share partition, which may still be loading, or an error code if this broker does not lead it."""
        hosted = self._partitions.get_by_id((key.topic_id, key.partition))
        if hosted is None:
            return self._leaders.absent_error(key.topic_id, key.partition)
        error = hosted.error_for_epoch(NO_LEADER_EPOCH)
        return error or self.open(key, hosted)

    def open(self, key: ShareKey, hosted: HostedPartition) -> LedSharePartition:
        """Returns the share partition, which may still be loading. This broker leads `hosted`."""
        led = self._led.get(key)
        if led is not None and (led.leader_epoch != hosted.leader_epoch or led.hosted is not hosted):
            self._forget(key, led)
            led = None
        if led is None:
            led = LedSharePartition(
                key,
                hosted,
                self._persister,
                self._parts,
                self._forget_if_current,
                self.remote,
            )
            self._led[key] = led
            led.load()
        led.refresh()
        return led

    def release(self, group_id: str, member_id: str) -> None:
        """Releases the records of a member that left."""
        for key, led in list(self._led.items()):
            if key.group_id == group_id:
                led.release(member_id)

    def forget_group(self, group_id: str) -> None:
        """Drops the share partitions of a group without members on this broker. The next fetch loads the persister's
        state.
        """
        for key, led in list(self._led.items()):
            if key.group_id == group_id and not led.is_writing:
                self._forget(key, led)

    def apply(self, is_changed: bool) -> None:
        """Drops share partitions after partitions changed leaders or were deleted."""
        if is_changed:
            for key, led in list(self._led.items()):
                hosted = self._partitions.get_by_id((key.topic_id, key.partition))
                if hosted is not led.hosted or not hosted.is_leader or hosted.leader_epoch != led.leader_epoch:
                    self._forget(key, led)

    def stop(self) -> None:
        for key, led in list(self._led.items()):
            self._forget(key, led)

    def _forget_if_current(self, led: LedSharePartition) -> None:
        """Drops the share partition if it is still the current one: a forgotten one may still get a response after its
        replacement.
        """
        if self._led.get(led.key) is led:
            self._forget(led.key, led)

    def _forget(self, key: ShareKey, led: LedSharePartition) -> None:
        del self._led[key]
        led.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
