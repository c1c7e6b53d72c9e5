"""Leaders of the partitions that simulated transactions write to: one of a topic, and one of `__consumer_offsets`.

The real `Producers`, `Verification` and marker checks validate writes, and the real group shard keeps offsets. This
module also computes the visible offsets of transactions on its own, in the simplest way.
"""

from __future__ import annotations

import random

from odradek.coordinator.result import GroupRequest
from odradek.metadata.image import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader, iter_headers
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.log.producers import Producers
from odradek.storage.log.transaction_checks import check_marker, is_in_transaction

from tests.coordinator.harness.kinds import encode_record
from tests.coordinator.transaction_calls import OFFSETS, Call, Marker, Question, Tag, Write
from tests.coordinator.transaction_logs import Entry, load_offsets
from tests.coordinator.transaction_producers import GROUPS, PARTITIONS

#: Group and partition -> the record's position, and the offset.
Committed = dict[tuple[str, int], tuple[int, int]]


class Leader:
    """The leader of a partition with all replicas in sync: writes are committed at once."""

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.producers = Producers()
        #: Producer id -> the writes of its open transaction.
        self.open: dict[int, list[Tag]] = {}
        self.ended: dict[Tag, set[bool]] = {}
        self.appended = 0

    def question(self, call: Call, now: int) -> Question | None:
        """Returns the verification that `call` requires before its write; None if it requires none."""
        write: Write = call.request
        if is_in_transaction(self.producers, *write.producer):
            return None
        bumps = call.client.bumps
        return Question(call, self.producers.verify(*write.producer, write.sequence, now, bumps_epochs=bumps))

    def still_stands(self, question: Question) -> bool:
        """Returns whether the verified transaction is still open for this leader."""
        producer = question.call.request.producer
        verification = self.producers.verifications.get(producer[0])
        return verification is question.verification or is_in_transaction(self.producers, *producer)

    def write(self, call: Call, now: int) -> int | None:
        """Writes a batch. Returns an error code, or 0; None if the response follows later."""
        write: Write = call.request
        header = self._header(*write.producer, 0, write.sequence)
        found = self.producers.check(header)
        if found is not ErrorCode.NONE:
            return int(found) if isinstance(found, ErrorCode) else 0
        self.producers.update(header)
        self.open.setdefault(write.producer[0], []).append(write.tag)
        self.appended += 1
        return 0

    def end(self, marker: Marker) -> ErrorCode:
        markers = marker.markers
        producer_id, epoch = markers.producer_id, markers.producer_epoch
        version = markers.transaction_version
        error = check_marker(self.producers, producer_id, epoch, marker.coordinator_epoch, version)
        if error is ErrorCode.NONE:
            self._end(marker)
        return error

    def _end(self, marker: Marker) -> None:
        producer_id, epoch, committed = marker.markers[1:4]
        header = self._header(producer_id, epoch, CONTROL_FLAG, -1)
        self.producers.end_transaction(header, 0, marker.coordinator_epoch, aborted=not committed)
        for tag in self.open.pop(producer_id, []):
            self.ended.setdefault(tag, set()).add(committed)

    def _header(self, producer_id: int, epoch: int, flags: int, sequence: int) -> BatchHeader:
        offset = self.producers.end_offset
        return BatchHeader(offset, 60, 0, 2, 0, TRANSACTIONAL_FLAG | flags, 0, 0, 0, producer_id, epoch, sequence, 1)


class OffsetsLeader(Leader):
    """The leader of a `__consumer_offsets` partition, the coordinator of its groups. A crash may lose its log's end."""

    def __init__(self) -> None:
        super().__init__(OFFSETS)
        self.shard = load_offsets([], 0)
        self.log: list[Entry] = []
        self.high_watermark = 0
        #: Commits and markers whose responses wait for the high watermark.
        self.parked: list[tuple[int, Call | Marker]] = []
        self.tags: dict[int, Tag] = {}
        self.visible: Committed = {}
        self.pending: dict[int, Committed] = {}

    def write(self, call: Call, now: int) -> int | None:
        write: Write = call.request
        self.tags[write.offset] = write.tag
        self.shard.handle(GroupRequest(call, write.as_commit(), call.version), now)
        output = self.shard.take()
        position = self.producers.end_offset
        records = [Record(position + i, now, *encode_record(record)) for i, record in enumerate(output.records)]
        (reply,) = output.replies
        error = reply.response.topics[0].partitions[0].error_code  # type: ignore[attr-defined]
        if error:
            return int(error)
        producer_id, epoch = write.producer
        batch = encode_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
        )
        self._append(Entry(batch, producer_id, epoch, 0, None, ((write.group, write.partition, write.offset),)))
        self.appended += 1
        self.parked.append((len(self.log), call))
        return None

    def _end(self, marker: Marker) -> None:
        producer_id, epoch, committed = marker.markers[1:4]
        coordinator_epoch = marker.coordinator_epoch
        batch = encode_end_transaction(
            committed,
            base_offset=self.producers.end_offset,
            timestamp=0,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
        )
        self._append(Entry(batch, producer_id, epoch, coordinator_epoch, committed, ()))
        self.shard.end_of_transaction(producer_id, committed)
        self.shard.state.next_offset += 1
        self.parked.append((len(self.log), marker))

    def _append(self, entry: Entry) -> None:
        self.log.append(entry)
        self._follow(entry)

    def _follow(self, entry: Entry) -> None:
        ((_, header),) = iter_headers(entry.batch)
        producer_id, committed = entry.producer_id, entry.committed
        if committed is None:
            for group, partition, offset in entry.offsets:
                mine = self.pending.setdefault(producer_id, {})
                mine[group, partition] = (header.base_offset, offset)
                self.open.setdefault(producer_id, []).append(self.tags[offset])
            self.producers.update(header)
            return
        self.producers.end_transaction(header, 0, entry.coordinator_epoch, aborted=not committed)
        for tag in self.open.pop(producer_id, []):
            self.ended.setdefault(tag, set()).add(committed)
        ended = self.pending.pop(producer_id, {})
        for place, found in ended.items() if committed else ():
            self.visible[place] = max(found, self.visible.get(place, (-1, -1)))

    def commit(self, rng: random.Random) -> list[Call | Marker]:
        """Advances the high watermark. Returns the commits and markers that waited for it."""
        self.high_watermark = rng.randrange(self.high_watermark, len(self.log) + 1)
        done = [one for end, one in self.parked if end <= self.high_watermark]
        self.parked = [(end, one) for end, one in self.parked if end > self.high_watermark]
        return done

    def crash(self, rng: random.Random, now: int) -> list[Marker]:
        """Loses uncommitted records. Returns the markers that will get no response."""
        lost = [one for _, one in self.parked if isinstance(one, Marker)]
        kept = self.log[: rng.randrange(self.high_watermark, len(self.log) + 1)]
        self.parked, self.high_watermark = [], len(kept)
        self.producers = Producers()
        for state in (self.open, self.ended, self.visible, self.pending):
            state.clear()
        self.log = kept
        for entry in kept:
            self._follow(entry)
        self.shard = load_offsets(kept, now)
        self.shard.take()
        return lost

    # Invariants.

    def read(self, group: str, is_stable: bool, now: int) -> None:
        """Fetches the offsets of a group, like a starting consumer."""
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=list(range(PARTITIONS)))
        asked = OffsetFetchRequestGroup(group_id=group, topics=[topic])
        self.shard.handle(GroupRequest("read", OffsetFetchRequest(groups=[asked], require_stable=is_stable), 9), now)
        (reply,) = self.shard.take().replies
        assert isinstance(reply.response, OffsetFetchResponse)
        for response in reply.response.groups[0].topics[0].partitions:
            place = (group, response.partition_index)
            if is_stable and any(place in pending for pending in self.pending.values()):
                assert response.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT, f"{place} is pending"
            else:
                _, offset = self.visible.get(place, (-1, -1))
                assert response.committed_offset == offset, f"{place} is at {response.committed_offset}, not {offset}"

    def check(self) -> None:
        found = _seen(self.shard.state.offsets)
        assert found == self.visible, "the visible offsets are not those of committed transactions"
        assert self.shard.state.next_offset == self.producers.end_offset

    def check_reload(self, now: int) -> None:
        again = load_offsets(self.log, now)
        ours, theirs = self.shard.state.offsets, again.state.offsets
        assert dict(ours.groups()) == dict(theirs.groups())
        for group in GROUPS:
            assert sorted(ours.pending_of(group)) == sorted(theirs.pending_of(group))


def _seen(store: object) -> Committed:
    return {
        (group, partition): (found.record_offset, found.offset)
        for group, topics in store.groups()  # type: ignore[attr-defined]
        for partitions in topics.values()
        for partition, found in partitions.items()
    }
