"""The survey of a damaged metadata log: what its readable part still holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...client.wording import counted
from ...protocol.codec import MalformedMessage
from ...protocol.internal.cluster_metadata import RemoveTopicRecord, TopicRecord
from ...protocol.internal.control_records import LeaderChangeMessage
from ...protocol.records.batch import BatchHeader
from ...protocol.records.control import decode_control
from ...protocol.records.errors import BatchError
from ...protocol.records.record import decode_batch
from ...storage.files.segment_files import LOG_SUFFIX, base_offset_of
from ...storage.log.loading import DamagedLog
from ...storage.segments.batches import DEFAULT_INDEX_INTERVAL_BYTES, OnBatch, scan
from .metadata_batches import decode_batches
from .metadata_snapshots import control_batches, sound_snapshots
from .quorum_voters import QuorumVoters

#: The maximum number of names in a message; the rest is given as a count.
MOST_NAMES = 5


@dataclass(slots=True)
class Survey:
    """The content of a metadata log. `topics`: name and offset of each record that creates a topic, in the log after
    the newest snapshot or before it.
    """

    quorum: QuorumVoters = field(default_factory=QuorumVoters)
    topics: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    record_offsets: list[int] = field(default_factory=list)

    @property
    def voters(self) -> set[int]:
        return {voter.voter_id for voter in self.quorum.voters}

    def records_from(self, offset: int) -> int:
        return sum(1 for one in self.record_offsets if one >= offset)

    def topics_from(self, offset: int) -> list[str]:
        return sorted(name for name, made_at in self.topics.values() if made_at >= offset)


def survey(directory: Path) -> Survey:
    """Surveys the whole batches of all segments, including those after damage. Raises OSError."""
    found = Survey()
    for snapshot in sound_snapshots(directory).sound[-1:]:
        for batch in control_batches(directory / snapshot.file_name):
            for _ in decode_batches(batch, found.quorum):
                pass
    for path in segments(directory):
        base = base_offset_of(path.name) or 0
        scan(str(path), base, path.stat().st_size, DEFAULT_INDEX_INTERVAL_BYTES, _learner(found))
    return found


def segments(directory: Path) -> Iterator[Path]:
    yield from sorted(path for path in directory.glob(f"*{LOG_SUFFIX}") if path.is_file())


def newer_leader_changes(directory: Path) -> list[int]:
    """Returns the offsets of LeaderChange records above version 0 that no snapshot has replaced. Apache Kafka ends when
    it reads one. Raises OSError.
    """
    snapshots = sound_snapshots(directory).sound
    begin = snapshots[0].end_offset if snapshots else 0
    found: list[int] = []

    def look(_position: int, header: BatchHeader, batch: memoryview) -> None:
        if not header.is_control:
            return
        try:
            controls = [(one.offset, decode_control(one.key, one.value)) for one in decode_batch(batch)]
        except (BatchError, MalformedMessage):
            return
        found.extend(
            offset
            for offset, control in controls
            if offset >= begin
            and control is not None
            and isinstance(control.message, LeaderChangeMessage)
            and control.message.version > 0
        )

    for path in segments(directory):
        scan(str(path), base_offset_of(path.name) or 0, path.stat().st_size, DEFAULT_INDEX_INTERVAL_BYTES, look)
    return found


def _learner(survey: Survey) -> OnBatch:
    def learn(_position: int, header: BatchHeader, batch: memoryview) -> None:
        try:
            batches = list(decode_batches(bytes(batch), survey.quorum))
        except (BatchError, MalformedMessage):
            return
        for _, records in batches:
            for number, record in enumerate(records):
                offset = header.base_offset + number
                survey.record_offsets.append(offset)
                if isinstance(record, TopicRecord):
                    survey.topics[record.topic_id] = (record.name, offset)
                elif isinstance(record, RemoveTopicRecord):
                    survey.topics.pop(record.topic_id, None)

    return learn


def loss(directory: Path, damaged: DamagedLog) -> str:
    """Describes in words what would be lost if the log ended at its first damaged byte."""
    found, first = survey(directory), damaged.ranges[0].first_offset
    lost = sum(one.next_offset - one.first_offset for one in damaged.ranges)
    behind = found.records_from(first)
    topics = found.topics_from(first)
    words = [counted(lost, "damaged offset"), f"a cut there would lose {counted(behind, 'record')} after them"]
    if topics:
        words.append(f"with {counted(len(topics), 'topic')} ({named(topics)})")
    return ", ".join(words)


def named(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
