"""Changes of ISRs, which a leader requests from the controller (AlterPartition, KIP-497)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ... import buggify
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    BrokerState,
)
from ...replication.isr import UNKNOWN_BROKER_EPOCH

if TYPE_CHECKING:
    from ...protocol.messages.alter_partition import AlterPartitionResponse, AlterPartitionResponsePartition
    from ...replication.isr import IsrProposal
    from ..controller.forwarding import Forwarding
    from ..partitions.replica import Replica
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy

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
            late_s = 0.0 if buggify.active is None else buggify.active.delay_s(buggify.HESITANT_LEADER)
            if late_s:
                asyncio.get_running_loop().call_later(late_s, self._send)
            else:
                asyncio.get_running_loop().call_soon(self._send)

    def close(self) -> None:
        self._is_closed = True

    def _send(self) -> None:
        self._asked = {key: asked for key, asked in self._asked.items() if asked.is_current}
        if not self._asked or self._is_closed:
            self._is_busy = False
            return
        topics: dict[bytes, AlterPartitionRequestTopic] = {}
        sent = dict(islice(self._asked.items(), MOST_AT_ONCE))
        for (topic_id, index), asked in sent.items():
            topic = topics.setdefault(topic_id, AlterPartitionRequestTopic(topic_id))
            topic.partitions.append(self._partition(index, asked))
        request = AlterPartitionRequest(self._node_id, self._broker_epoch(), list(topics.values()))
        self._forwarding().send_to_controller(request, partial(self._answered, sent), timeout_ms=TIMEOUT_MS)

    def _partition(self, index: int, asked: _Asked) -> AlterPartitionRequestPartition:
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
        return AlterPartitionRequestPartition(
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

    def _resolve(self, asked: _Asked, partition: AlterPartitionResponsePartition) -> bool:
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

    def _accepted(self, asked: _Asked, partition: AlterPartitionResponsePartition) -> None:
        now_ms = self._clock.now_ms()
        asked.replica.isr_accepted(
            asked.proposal, tuple(partition.isr), partition.leader_epoch, partition.partition_epoch, now_ms
        )
