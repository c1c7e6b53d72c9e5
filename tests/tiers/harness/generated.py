"""Random values of tiered storage, by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st
from odradek.tiers.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

_INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
_IDS = st.binary(min_size=16, max_size=16).filter(any)
_TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda name: name not in (".", ".."))
_CUSTOM = st.none() | st.binary(max_size=128)

partitions = st.builds(TopicIdPartition, _IDS, _TOPICS, st.integers(0, (1 << 31) - 1))


@st.composite
def segments(draw: st.DrawFn) -> RemoteLogSegmentMetadata:
    """A segment that passes the checks: offsets and epochs in order."""
    start = draw(st.integers(0, (1 << 62)))
    end = start + draw(st.integers(0, (1 << 40)))
    numbers = sorted(draw(st.sets(st.integers(0, (1 << 31) - 1), min_size=1, max_size=5)))
    later = sorted(draw(st.lists(st.integers(start, end), min_size=len(numbers) - 1, max_size=len(numbers) - 1)))
    return RemoteLogSegmentMetadata(
        draw(partitions), draw(_IDS), start, end, draw(_INT64), draw(_INT32), draw(_INT64),
        draw(st.integers(0, (1 << 31) - 1)), tuple(zip(numbers, [start, *later], strict=True)),
        draw(st.sampled_from(RemoteLogSegmentState)), draw(_CUSTOM), draw(st.booleans()),
    )  # fmt: skip


updates = st.builds(
    RemoteLogSegmentMetadataUpdate, partitions, _IDS, _INT32, _INT64, st.sampled_from(RemoteLogSegmentState), _CUSTOM
)
deletions = st.builds(
    RemotePartitionDeleteMetadata, partitions, _INT32, _INT64, st.sampled_from(RemotePartitionDeleteState)
)
events = segments() | updates | deletions


# Histories of one partition: few segments, epochs and offsets, so that copies cover and follow one another.

HISTORY_PARTITION = TopicIdPartition(b"history-of-a-log", "orders", 0)
MOST_OFFSET = 14
EPOCHS = (0, 1, 2, 3)


@st.composite
def small_segments(draw: st.DrawFn, number: int) -> RemoteLogSegmentMetadata:
    start = draw(st.integers(0, MOST_OFFSET - 1))
    end = draw(st.integers(start, MOST_OFFSET))
    numbers = sorted(draw(st.sets(st.sampled_from(EPOCHS), min_size=1, max_size=3)))
    later = sorted(draw(st.lists(st.integers(start, end), min_size=len(numbers) - 1, max_size=len(numbers) - 1)))
    return RemoteLogSegmentMetadata(
        HISTORY_PARTITION, bytes(15) + bytes((number + 1,)), start, end, 1_000 + end, 1, 0, 100,
        tuple(zip(numbers, [start, *later], strict=True)), txn_index_empty=draw(st.booleans()),
    )  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate]:
    """Events of up to six segments, most of them in a valid order, some repeated, late or of an unknown segment."""
    known = [draw(small_segments(number)) for number in range(draw(st.integers(1, 6)))]
    progress = [-1] * len(known)
    events: list[RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate] = []
    for _ in range(draw(st.integers(1, 20))):
        number = draw(st.integers(0, len(known) - 1))
        step = draw(st.sampled_from((1, 1, 1, 1, 1, 1, 0, 2, -1)))
        state = RemoteLogSegmentState(min(max(progress[number] + step, 0), 3))
        segment = known[number]
        if state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            events.append(segment)
        else:
            events.append(
                RemoteLogSegmentMetadataUpdate(HISTORY_PARTITION, segment.segment_id, 2, len(events), state, b"c")
            )
        progress[number] = max(progress[number], int(state))
    return events
