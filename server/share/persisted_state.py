"""The persister's state of one share partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...coordinator.share_partition.partition import Write
from ...coordinator.share_state.state import ShareKey
from ...protocol.messages import read_share_group_state as reading
from ...protocol.messages import write_share_group_state as writing

if TYPE_CHECKING:
    from ..coordinators.persister import Persister
    from ..runtime.lazy import Lazy

#: Called with each completed write and the persister's error code and message.
Written = Callable[[Write, int, "str | None"], None]


class PersistedState:
    """Reads and writes the state, with one write in flight: an earlier start offset must not overwrite a later one."""

    def __init__(self, persister: Lazy[Persister], key: ShareKey, leader_epoch: int, written: Written) -> None:
        self._persister = persister
        self._key = key
        self._leader_epoch = leader_epoch
        self._written = written
        #: The epoch of the state that was read.
        self._state_epoch = 0
        self._writes: deque[Write] = deque()
        self._is_writing = False

    @property
    def is_writing(self) -> bool:
        return self._is_writing or bool(self._writes)

    def read(self, done: Callable[[reading.PartitionResult], None]) -> None:
        partition = reading.PartitionData(partition=self._key.partition, leader_epoch=self._leader_epoch)
        topic = reading.ReadStateData(topic_id=self._key.topic_id, partitions=[partition])
        request = reading.ReadShareGroupStateRequest(group_id=self._key.group_id, topics=[topic])
        self._persister().ask(request, partial(self._was_read, done))

    def _was_read(
        self, done: Callable[[reading.PartitionResult], None], response: reading.ReadShareGroupStateResponse
    ) -> None:
        found = response.results[0].partitions[0]
        self._state_epoch = found.state_epoch
        done(found)

    def write(self, writes: Sequence[Write]) -> None:
        """Adds writes and sends the next one."""
        self._writes += writes
        if self._is_writing or not self._writes:
            return
        self._is_writing = True
        next_write = self._writes.popleft()
        partition = writing.PartitionData(
            partition=self._key.partition,
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            start_offset=next_write.start_offset,
            delivery_complete_count=next_write.delivery_complete_count,
            state_batches=[writing.StateBatch(*batch) for batch in next_write.batches],
        )
        topic = writing.WriteStateData(topic_id=self._key.topic_id, partitions=[partition])
        request = writing.WriteShareGroupStateRequest(group_id=self._key.group_id, topics=[topic])
        self._persister().ask(request, partial(self._was_written, next_write))

    def _was_written(self, written: Write, response: writing.WriteShareGroupStateResponse) -> None:
        self._is_writing = False
        found = response.results[0].partitions[0]
        self._written(written, found.error_code, found.error_message)
