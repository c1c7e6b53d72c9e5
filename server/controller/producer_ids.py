"""Producer ids for idempotent producers, taken from blocks that the controller allocates (KIP-730)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from .controller_request import Submit

log = logging.getLogger("odradek.producer_ids")

ALLOCATE_VERSION = AllocateProducerIdsRequest.newest_version()
#: Requests that wait for a block; further ones get an error that clients retry after.
MAX_WAITING = 10_000

#: Called with an error code and, when that is 0, a producer id.
OnAllocated = Callable[[int, int], None]


class ProducerIds:
    """`broker_epoch` returns the epoch of this broker's registration, `floor` the lowest id that may be given."""

    def __init__(self, node_id: int, broker_epoch: Callable[[], int], submit: Submit, floor: Callable[[], int]) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._submit = submit
        self._floor = floor
        self._next = 0
        self._end = 0
        self._waiting: deque[OnAllocated] = deque()
        self._is_asking = False

    def take(self, taken: OnAllocated) -> None:
        """Calls `taken` with a new unique id, at once or when the controller has allocated a block."""
        if self._has_one():
            self._next += 1
            taken(ErrorCode.NONE, self._next - 1)
        elif len(self._waiting) >= MAX_WAITING:
            taken(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
        else:
            self._waiting.append(taken)
            self._ask()

    def _has_one(self) -> bool:
        """Returns whether the block has an id that may be given."""
        return self._floor() <= self._next < self._end

    def _ask(self) -> None:
        if self._is_asking:
            return
        self._is_asking = True
        request = AllocateProducerIdsRequest(self._node_id, self._broker_epoch())
        self._submit(request, ALLOCATE_VERSION, self._given)

    def _given(self, response: AllocateProducerIdsResponse) -> None:
        self._is_asking = False
        if response.error_code:
            log.error("the controller returned no producer ids: %s", ErrorCode(response.error_code).name)
            waiting, self._waiting = self._waiting, deque()
            for taken in waiting:
                taken(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
            return
        self._next = response.producer_id_start
        self._end = response.producer_id_start + response.producer_id_len
        while self._waiting and self._has_one():
            self.take(self._waiting.popleft())
        if self._waiting:
            self._ask()
