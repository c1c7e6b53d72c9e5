"""From the committed part of the metadata log to images: what the quorum has agreed on becomes a delta and the next image.

A leader keeps the records of its own decisions until they are committed, and replays them as they are; all else is read
from the log: what was there at the start, and what a follower has fetched. A decision that went in several batches counts
when all of them are committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ...metadata.delta import MetadataDelta
from ...metadata.image import EMPTY_IMAGE, MetadataImage
from ...metadata.replacing import replace
from ...metadata.transactions import MetadataTransactions
from ...protocol.schema import Message
from ...replication.controller.controller import Controller
from ..runtime.sliced_work import Steps
from .metadata_batches import QuorumVoters, decode_batches
from .metadata_log import Loaded, QuorumLog
from .snapshots import SnapshotId, read_snapshot

_READ_BYTES = 1 << 20


class Appended(NamedTuple):
    """The records of one decision, which are in the log."""

    base_offset: int
    end_offset: int
    records: Sequence[Message]
    epoch: int
    append_timestamp_ms: int


def replay_decision(
    controller: Controller, records: Sequence[Message], epoch: int, now_ms: int, kraft_version: int
) -> None:
    """Before the records are appended: what cannot be replayed here could be replayed nowhere. A controller that fails is
    where it was.
    """
    image, next_offset = controller.image, controller.next_offset
    try:
        controller.replay(records, epoch, now_ms)
    except Exception:
        for _ in controller.learn(image):
            pass
        controller.load(image, next_offset, kraft_version)
        raise


def snapshot_commits(quorum_log: QuorumLog, loaded: Loaded) -> Commits:
    """Of a node that knows what its newest snapshot has, and not what of the log behind it is committed."""
    end_offset = quorum_log.snapshots[-1].end_offset if quorum_log.snapshots else 0
    image = loaded.delta.apply(end_offset - 1, loaded.last_epoch, loaded.last_append_timestamp_ms)
    return Commits(quorum_log, loaded.delta, image, loaded.transactions)


class Commits:
    """`offset`: below it everything is in `image()`. `delta` leads there from what was published last, `delta.image`;
    `image` is what it comes to at the beginning.
    """

    def __init__(
        self, quorum_log: QuorumLog, delta: MetadataDelta, image: MetadataImage, transactions: MetadataTransactions
    ) -> None:
        self._log = quorum_log
        self.delta = delta
        self.offset = image.offset + 1
        self._transactions = transactions
        self._epoch = image.epoch
        self._timestamp_ms = image.last_append_timestamp_ms
        self._appended: deque[Appended] = deque()
        #: One that was fetched and is not loaded yet; nothing else is replayed before it is.
        self._snapshot: SnapshotId | None = None

    @property
    def is_replaced(self) -> bool:
        """A snapshot stands for everything below its end: to be loaded. What was committed before counts no more."""
        return self._snapshot is not None

    @property
    def in_transaction(self) -> bool:
        return self._transactions.is_open

    def appended(self, decision: Appended) -> None:
        self._appended.append(decision)

    def forget_appended(self) -> None:
        """This node leads no more: the log says what becomes of its decisions."""
        self._appended.clear()

    def advance(self, end_offset: int) -> bool:
        """Replays what is committed now that everything below `end_offset` is; whether there was anything."""
        before = self.offset
        while self.offset < end_offset and not self.is_replaced:
            decision = self._appended[0] if self._appended else None
            if decision is None or decision.base_offset > self.offset:
                if not self._read(min(end_offset, decision.base_offset) if decision is not None else end_offset):
                    break
            elif decision.end_offset <= end_offset:
                self._appended.popleft()
                self._replay(decision.records)
                self.offset, self._epoch = decision.end_offset, decision.epoch
                self._timestamp_ms = decision.append_timestamp_ms
            else:
                break
        return self.offset > before

    def _read(self, end_offset: int) -> bool:
        """Whether there was a whole batch."""
        found = self._log.log.read(self.offset, _READ_BYTES, end_offset)
        # Who votes is the replica's affair, which has learned it when the batch came.
        for header, records in decode_batches(found.bytes(), QuorumVoters()):
            self._replay(records[max(0, self.offset - header.base_offset) :])
            self.offset, self._epoch = header.next_offset, header.leader_epoch
            self._timestamp_ms = header.max_timestamp
        return found.size > 0

    def _replay(self, records: Sequence[Message]) -> None:
        for record in records:
            for effective in self._transactions.take(record):
                self.delta.replay(effective)

    def replaced(self, snapshot: SnapshotId) -> None:
        """One that was fetched stands for the log now, see `load`."""
        self._snapshot = snapshot
        self._appended.clear()

    def load(self) -> Steps[None]:
        """In steps; and if one comes after the other meanwhile, the last one."""
        while (snapshot := self._snapshot) is not None:
            loaded = yield from read_snapshot(self._log.directory / snapshot.file_name)
            timestamp_ms = loaded.quorum.last_contained_timestamp_ms
            after = loaded.delta.apply(snapshot.end_offset - 1, snapshot.epoch, timestamp_ms)
            delta = loaded.delta
            if self.delta.image is not EMPTY_IMAGE:
                delta = MetadataDelta(self.delta.image)
                yield from replace(delta, after)
            if snapshot != self._snapshot:
                continue
            self.delta, self._transactions, self._snapshot = delta, MetadataTransactions(), None
            self.offset, self._epoch, self._timestamp_ms = snapshot.end_offset, snapshot.epoch, timestamp_ms

    def image(self) -> MetadataImage:
        return self.delta.apply(self.offset - 1, self._epoch, self._timestamp_ms)

    def take(self) -> tuple[MetadataDelta, MetadataImage]:
        """What is to be published: the delta since the last time, and what it leads to."""
        delta, image = self.delta, self.image()
        self.delta = MetadataDelta(image)
        return delta, image
