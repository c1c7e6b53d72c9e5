"""Replication of a broker's partitions with other brokers; a single node never creates it.

- `Replication`: the broker follows the partitions that others lead. Each belongs to one of `num.replica.fetchers`
  fetchers for its leader. Each fetcher has a second one, for partitions that are added while the first waits for the
  leader. Followers join the ISR of a partition that the broker leads as they fetch; followers that lag are removed by
  a check at half of `replica.lag.time.max.ms`.
- `IsrChanges`: requests these changes of ISRs from the controller (AlterPartition, KIP-497).
- `ReplicationQuota`: the throttle of replication at a leader, or at a follower (KIP-73).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.configs.key import FOREVER
from ...metadata.image import TOPIC_RESOURCE
from ...protocol.errors import ErrorCode
from ...protocol.messages.partitions import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataRequest,
)
from ...replication.partition import UNKNOWN_BROKER_EPOCH, IsrProposal
from ...storage.files.open_files import LogDirectoryFailure
from .fetcher import FollowedPartition, ReplicaFetcher

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..controller.channel import Forwarding
    from ..partitions.hosted_partition import HostedPartition, Replica
    from ..runtime.clock import Clock
    from ..runtime.subsystem import Lazy, MetadataCache


#: Fetchers for the same partitions, of which mostly the first has all.
FETCHERS_PER_SOURCE = 2


class Replication:
    """The fetchers of this broker, and its part in the ISRs of the partitions that it leads.

    `leaders`, `followers`: quotas of replicas that are not in the ISR, for leaders that send and followers that fetch.
    `make_fetcher` makes the fetcher for a leader and a purpose.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        partitions: Iterable[HostedPartition],
        isr_changes: IsrChanges,
        leaders: ReplicationQuota,
        followers: ReplicationQuota,
        make_fetcher: Callable[[int, str], ReplicaFetcher],
    ) -> None:
        self._config = config
        self._clock = clock
        self._partitions = partitions
        self._make_fetcher = make_fetcher
        #: By the leader, the number of the fetcher, and its line.
        self._fetchers: dict[tuple[int, int, int], ReplicaFetcher] = {}
        self.isr_changes = isr_changes
        self.leaders = leaders
        self.followers = followers
        self._is_closed = False
        self._plan_shrinking()

    def close(self) -> None:
        self._is_closed = True
        self.isr_changes.close()
        for fetcher in self._fetchers.values():
            fetcher.close()

    def follow(self, hosted: HostedPartition) -> None:
        """Follows the partition's leader, which is a new one, or the same in a new epoch."""
        role = hosted.role
        if role.is_leader or role.leader < 0 or hosted.offline or self._is_closed:
            return
        try:
            followed = FollowedPartition(hosted, self._clock.now_ms())
        except LogDirectoryFailure as failure:
            hosted.on_failure(failure)
        else:
            self._fetcher_for(hosted).follow(followed)

    def _fetcher_for(self, hosted: HostedPartition) -> ReplicaFetcher:
        count: int = self._config.get("num.replica.fetchers")
        number = (hash(hosted.topic_id) * 31 + hosted.index) % count
        for line in range(FETCHERS_PER_SOURCE):
            fetcher = self._fetcher(hosted.role.leader, number, line)
            if not fetcher.is_waiting:
                return fetcher
        return self._fetcher(hosted.role.leader, number, 0)

    def _fetcher(self, leader: int, number: int, line: int) -> ReplicaFetcher:
        key = (leader, number, line)
        if key not in self._fetchers:
            self._fetchers[key] = self._make_fetcher(leader, f"fetcher-{number}-{line}-of-{leader}")
        return self._fetchers[key]

    def _plan_shrinking(self) -> None:
        lag_time_max_ms: int = self._config.get("replica.lag.time.max.ms")
        self._clock.call_at(self._clock.now_ms() + lag_time_max_ms // 2, self._shrink)

    def _shrink(self) -> None:
        if self._is_closed:
            return
        now_ms = self._clock.now_ms()
        for hosted in self._partitions:
            if len(hosted.role.isr) > 1 and hosted.role.is_leader and not hosted.offline:
                hosted.shrink_isr(now_ms)
        self._plan_shrinking()


# ---- changes of ISRs

log = logging.getLogger("odradek.replicas")

RETRY_MS = 50
#: Changes in one request: the controller decides on all of them in one turn of the loop.
MOST_AT_ONCE = 500
TIMEOUT_MS = 30_000
#: The controller has rejected this ISR; another one may be proposed.
_REJECTED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
#: The controller has a newer state of the partition, which comes with the metadata.
_OUTDATED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


#: Topic id and index.
Key = tuple[bytes, int]


class _Asked(NamedTuple):
    replica: Replica
    proposal: IsrProposal
    is_shrink: bool

    @property
    def is_current(self) -> bool:
        return self.replica.role.proposal is self.proposal and not self.replica.is_removed


class IsrChanges:
    """The proposals of this broker. `broker_epoch` returns the epoch of its registration.

    One request is in flight, with all proposals. A proposal stands until it is answered or the metadata supersedes
    it. A proposal that the controller rejects permanently is withdrawn; after a transient error it is sent again. If
    the controller has a newer state of the partition, this broker will receive that state with the metadata.
    """

    def __init__(
        self, node_id: int, broker_epoch: Callable[[], int], clock: Clock, forwarding: Lazy[Forwarding]
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._forwarding = forwarding
        self._asked: dict[Key, _Asked] = {}
        self._is_busy = False
        self._is_closed = False
        #: ISR shrinks and expansions since the start.
        self.shrinks = self.expands = 0

    def propose(self, replica: Replica, proposal: IsrProposal) -> None:
        log.debug("%s: the ISR is %s, requesting %s", replica.name, replica.role.isr, proposal.isr)
        self._asked[replica.topic_id, replica.index] = _Asked(
            replica, proposal, len(proposal.isr) < len(replica.role.isr)
        )
        if not self._is_busy:
            self._is_busy = True
            asyncio.get_running_loop().call_soon(self._send)

    def close(self) -> None:
        self._is_closed = True

    def _send(self) -> None:
        self._asked = {key: asked for key, asked in self._asked.items() if asked.is_current}
        if not self._asked or self._is_closed:
            self._is_busy = False
            return
        topics: dict[bytes, TopicDataRequest] = {}
        sent = dict(islice(self._asked.items(), MOST_AT_ONCE))
        for (topic_id, index), asked in sent.items():
            topic = topics.setdefault(topic_id, TopicDataRequest(topic_id))
            topic.partitions.append(self._partition(index, asked))
        request = AlterPartitionRequest(self._node_id, self._broker_epoch(), list(topics.values()))
        self._forwarding().send_to_controller(request, partial(self._answered, sent), timeout_ms=TIMEOUT_MS)

    def _partition(self, index: int, asked: _Asked) -> PartitionDataRequest:
        proposal, role = asked.proposal, asked.replica.role
        members = [
            BrokerState(
                replica,
                self._broker_epoch()
                if replica == role.local_id
                else role.followers[replica].broker_epoch
                if replica in role.followers
                else UNKNOWN_BROKER_EPOCH,
            )
            for replica in proposal.isr
        ]
        return PartitionDataRequest(
            partition_index=index,
            leader_epoch=proposal.leader_epoch,
            new_isr=list(proposal.isr),
            new_isr_with_epochs=members,
            partition_epoch=proposal.partition_epoch,
        )

    def _answered(self, sent: dict[Key, _Asked], response: AlterPartitionResponse | None) -> None:
        """Handles the response. Changes that the response does not settle are requested again."""
        is_complete = response is not None and not response.error_code
        if response is not None and is_complete:
            for topic in response.topics:
                for partition in topic.partitions:
                    asked = sent.get((topic.topic_id, partition.partition_index))
                    if asked is None:
                        continue
                    if not partition.error_code:
                        self._count(asked)
                    # The metadata may have settled it, and another proposal may stand.
                    if asked.is_current:
                        is_complete &= self._resolve(asked, partition)
        elif response is not None:
            log.warning("the controller rejected changes of the ISR: %s", ErrorCode(response.error_code).name)
        if is_complete:
            self._send()
        else:
            asyncio.get_running_loop().call_later(RETRY_MS / 1000, self._send)

    def _resolve(self, asked: _Asked, partition: PartitionDataResponse) -> bool:
        """Returns True if the change need not be requested again."""
        error, replica = partition.error_code, asked.replica
        key = (replica.topic_id, replica.index)
        if error:
            log.info("%s: the ISR cannot become %s: %s", replica.name, asked.proposal.isr, ErrorCode(error).name)
        if error and error not in _REJECTED and error not in _OUTDATED:
            self._asked[key] = self._asked.pop(key)  # behind those that were not requested yet
            return False
        del self._asked[key]
        if error in _REJECTED:
            replica.role.withdraw(asked.proposal)
        elif not error:
            self._accepted(asked, partition)
        return True

    def _count(self, asked: _Asked) -> None:
        if asked.is_shrink:
            self.shrinks += 1
        else:
            self.expands += 1

    def _accepted(self, asked: _Asked, partition: PartitionDataResponse) -> None:
        now_ms = self._clock.now_ms()
        asked.replica.isr_accepted(
            asked.proposal, tuple(partition.isr), partition.leader_epoch, partition.partition_epoch, now_ms
        )


# ---- the throttle of replication at a leader, or at a follower (KIP-73)
#
# `ReplicationRate`, and the replicas that a topic's configuration lists: `ReplicationQuota` compares both with the rate of
# the broker's configuration.

ALL_REPLICAS = "*"


class ReplicationRate:
    """A byte rate over the last `samples` samples of `sample_ms` each."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._sample_ms = sample_ms
        self._samples = samples
        #: (start time, bytes), oldest first.
        self._kept: deque[tuple[int, int]] = deque()

    def record(self, size: int, now_ms: int) -> None:
        if self._kept and now_ms - self._kept[-1][0] < self._sample_ms:
            began_ms, before = self._kept[-1]
            self._kept[-1] = (began_ms, before + size)
        else:
            self._kept.append((now_ms, size))
        self._forget(now_ms)

    def bytes_per_second(self, now_ms: int) -> float:
        self._forget(now_ms)
        if not self._kept:
            return 0.0
        elapsed_ms = max(self._sample_ms, now_ms - self._kept[0][0])
        return sum(size for _, size in self._kept) * 1000 / elapsed_ms

    def _forget(self, now_ms: int) -> None:
        while self._kept and now_ms - self._kept[0][0] >= self._samples * self._sample_ms:
            self._kept.popleft()


def is_listed(replicas: Collection[str], index: int, broker_id: int) -> bool:
    """Returns whether a topic's list of throttled replicas (`partition:broker`, or `*`) contains this one."""
    return ALL_REPLICAS in replicas or f"{index}:{broker_id}" in replicas


LEADERS = ("leader.replication.throttled.rate", "leader.replication.throttled.replicas")
FOLLOWERS = ("follower.replication.throttled.rate", "follower.replication.throttled.replicas")
#: Topics whose lists are kept as sets; only topics under reassignment have one. A list is parsed when it has changed.
MAX_REMEMBERED_TOPICS = 10_000


class ReplicationQuota:
    """The quota of one direction. `keys`: LEADERS or FOLLOWERS.

    It keeps to the rate of the broker's configuration, for the replicas that the topic's configuration lists, while
    they are not in the ISR. Without a rate it costs nothing.
    """

    def __init__(
        self, node_id: int, config: BrokerConfig, clock: Clock, metadata: MetadataCache, keys: tuple[str, str]
    ) -> None:
        self._node_id = node_id
        self._config = config
        self._clock = clock
        self._metadata = metadata
        self._rate_key, self._replicas_key = keys
        seconds: int = config.get("replication.quota.window.size.seconds")
        self._rate = ReplicationRate(config.get("replication.quota.window.num"), seconds * 1000)
        #: The replicas that a topic lists, with the text that they were parsed from.
        self._listed: dict[str, tuple[str, frozenset[str]]] = {}

    @property
    def is_on(self) -> bool:
        limit: int = self._config.get(self._rate_key)
        return limit < FOREVER

    def throttles(self, replica: Replica) -> bool:
        """Returns True if the topic's configuration lists the replica as throttled."""
        text = self._metadata.image.config(TOPIC_RESOURCE, replica.topic).get(self._replicas_key, "")
        if not text:
            return False
        known = self._listed.get(replica.topic)
        if known is None or known[0] != text:
            if len(self._listed) >= MAX_REMEMBERED_TOPICS:
                self._listed.clear()
            known = self._listed[replica.topic] = text, frozenset(name.strip() for name in text.split(","))
        return is_listed(known[1], replica.index, self._node_id)

    def is_throttled(self, replica: Replica, follower: int) -> bool:
        """Returns True if `follower` has to wait: it is throttled, not in the ISR, and the quota is exceeded."""
        return self.is_on and follower not in replica.role.isr and self.throttles(replica) and self._is_exceeded

    @property
    def _is_exceeded(self) -> bool:
        limit: int = self._config.get(self._rate_key)
        return self._rate.bytes_per_second(self._clock.now_ms()) > limit

    def record(self, replica: Replica, size: int) -> None:
        if self.is_on and self.throttles(replica):
            self._rate.record(size, self._clock.now_ms())
