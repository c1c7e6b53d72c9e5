"""Turns the committed part of the metadata log into a delta and the next image.

A leader keeps the records of its own decisions until they are committed, and then replays them from memory. All other
records are read from the log once they are committed.
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
from .metadata_batches import decode_batches
from .metadata_log import Loaded, QuorumLog
from .metadata_snapshots import SnapshotId, read_snapshot
from .quorum_voters import QuorumVoters

_READ_BYTES = 1 << 20


class Appended(NamedTuple):
    """The records of one decision that are in the log."""

    base_offset: int
    end_offset: int
    records: Sequence[Message]
    epoch: int
    append_timestamp_ms: int


def replay_decision(
    controller: Controller, records: Sequence[Message], epoch: int, now_ms: int, kraft_version: int
) -> None:
    """Replays the records in the controller before they are appended: a record that fails to replay here would fail on
    every node. After a failure the controller has the state it had before the call.
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
    """The commits of a node that has loaded its newest snapshot and does not yet know which part of the log is
    committed.
    """
    end_offset = quorum_log.snapshots[-1].end_offset if quorum_log.snapshots else 0
    image = loaded.delta.apply(end_offset - 1, loaded.last_epoch, loaded.last_append_timestamp_ms)
    return Commits(quorum_log, loaded.delta, image, loaded.transactions)


class Commits:
    """The image of everything committed below `offset`. `delta` leads from the last published image, `delta.image`, to
    `image()`. The parameter `image` is the state that `delta` initially leads to.
    """

    def __init__(
        self, quorum_log: QuorumLog, delta: MetadataDelta, image: MetadataImage, transactions: MetadataTransactions
    ) -> None:
        self._quorum_log = quorum_log
        self.delta = delta
        self.offset = image.offset + 1
        self._transactions = transactions
        self._epoch = image.epoch
        self._timestamp_ms = image.last_append_timestamp_ms
        self._appended: deque[Appended] = deque()
        #: A fetched snapshot that is not loaded yet. Nothing is replayed until it is loaded.
        self._snapshot: SnapshotId | None = None

    @property
    def is_replaced(self) -> bool:
        """True while a fetched snapshot that replaces everything below its end offset is waiting to be loaded. Earlier
        commits are then obsolete.
        """
        return self._snapshot is not None

    @property
    def in_transaction(self) -> bool:
        return self._transactions.is_open

    def appended(self, decision: Appended) -> None:
        self._appended.append(decision)

    def forget_appended(self) -> None:
        """Drops the decisions kept in memory: this node no longer leads, and the log decides which of them are
        committed.
        """
        self._appended.clear()

    def advance(self, end_offset: int) -> bool:
        """Replays all records committed below `end_offset`. Returns whether there were any."""
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
        """Replays batches read from the log. Returns whether there was a whole batch."""
        found = self._quorum_log.log.read(self.offset, _READ_BYTES, end_offset)
        # The replica tracks the voter set. It learned of a change when the batch was appended.
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
        """Records that a fetched snapshot replaces the log. See `load`."""
        self._snapshot = snapshot
        self._appended.clear()

    def load(self) -> Steps[None]:
        """Loads the fetched snapshot in steps. If newer snapshots arrive meanwhile, the newest is loaded."""
        while (snapshot := self._snapshot) is not None:
            loaded = yield from read_snapshot(self._quorum_log.directory / snapshot.file_name)
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
        """Returns what to publish: the delta since the last call and the image that it leads to."""
        delta, image = self.delta, self.image()
        self.delta = MetadataDelta(image)
        return delta, image
