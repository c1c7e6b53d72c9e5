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
