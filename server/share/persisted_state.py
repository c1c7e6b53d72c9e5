"""The persister's state of one share partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...coordinator.share_partition import Write
from ...protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from ...protocol.messages.share_state_batches import StateBatchData
from ...protocol.messages.share_state_reads import ReadStateData, ReadStatePartition
from ...protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStateData,
    WriteStatePartition,
)

if TYPE_CHECKING:
    from ...coordinator.share_state import ShareKey
    from ...protocol.messages.read_share_group_state import ReadShareGroupStateResponse, ReadStatePartitionResult
    from ...protocol.messages.write_share_group_state import WriteShareGroupStateResponse
    from ..coordinators.persister_requests import Persister
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

    def read(self, done: Callable[[ReadStatePartitionResult], None]) -> None:
        partition = ReadStatePartition(partition=self._key.partition, leader_epoch=self._leader_epoch)
        topic = ReadStateData(topic_id=self._key.topic_id, partitions=[partition])
        request = ReadShareGroupStateRequest(group_id=self._key.group_id, topics=[topic])
        self._persister().ask(request, partial(self._was_read, done))

    def _was_read(
        self, done: Callable[[ReadStatePartitionResult], None], response: ReadShareGroupStateResponse
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
        partition = WriteStatePartition(
            partition=self._key.partition,
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            start_offset=next_write.start_offset,
            delivery_complete_count=next_write.delivery_complete_count,
            state_batches=[StateBatchData(*batch) for batch in next_write.batches],
        )
        topic = WriteStateData(topic_id=self._key.topic_id, partitions=[partition])
        request = WriteShareGroupStateRequest(group_id=self._key.group_id, topics=[topic])
        self._persister().ask(request, partial(self._was_written, next_write))

    def _was_written(self, written: Write, response: WriteShareGroupStateResponse) -> None:
        self._is_writing = False
        found = response.results[0].partitions[0]
        self._written(written, found.error_code, found.error_message)
