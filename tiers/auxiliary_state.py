"""The state with which a follower begins behind the part of a log that only the store has (KIP-405).

A follower whose offset the leader answers with OFFSET_MOVED_TO_TIERED_STORAGE does not fetch the records before the
leader's local log start. It takes the leader epochs and the producers' state from the last remote segment before it, and
fetches from there on.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from ..protocol.internal.producer_snapshot import ProducerEntry
from ..storage.segments.snapshots import CorruptSnapshot, decode_snapshot
from .checked_reads import remote_index
from .object_names import object_name
from .segment_metadata import RemoteLogSegmentMetadata
from .store import DamagedRemoteObject, PartType, RemoteStore


class AuxiliaryState(NamedTuple):
    """The state of a log that starts at `start_offset`: (epoch, first offset) of all epochs before, and the producers."""

    start_offset: int
    epochs: list[tuple[int, int]]
    producers: list[ProducerEntry]


def fetch_auxiliary_state(store: RemoteStore, segment: RemoteLogSegmentMetadata) -> AuxiliaryState:
    """Returns the state at the end of a segment, `segment.end_offset + 1`. For a thread. Raises RemoteStorageError."""
    epochs = parse_leader_epochs(segment, remote_index(store, segment, PartType.LEADER_EPOCHS))
    try:
        producers = decode_snapshot(remote_index(store, segment, PartType.PRODUCER_SNAPSHOT))
    except CorruptSnapshot as error:
        raise DamagedRemoteObject(object_name(segment, PartType.PRODUCER_SNAPSHOT), 0, str(error)) from None
    return AuxiliaryState(segment.end_offset + 1, epochs, producers)


def parse_leader_epochs(segment: RemoteLogSegmentMetadata, content: bytes) -> list[tuple[int, int]]:
    """Returns (epoch, first offset) of the log up to the segment's end. Raises DamagedRemoteObject.

    The file is the log's `leader-epoch-checkpoint`. It must end with the epochs of the segment.
    """
    try:
        version, count, *lines = content.decode("ascii").splitlines()
        pairs = [(int(epoch), int(start)) for epoch, start in (line.split(" ") for line in lines)]
        is_whole = (int(version), int(count)) == (0, len(pairs))
    except ValueError as error:
        raise _damaged_epochs(segment, str(error)) from None
    is_ascending = all(one[0] < other[0] and one[1] <= other[1] for one, other in pairwise(pairs))
    last = [epoch for epoch, _ in segment.epochs]
    if not is_whole or not is_ascending or [epoch for epoch, _ in pairs[-len(last) :]] != last:
        raise _damaged_epochs(segment, f"{len(pairs)} epochs that are not those of the segment")
    if pairs[0][0] < 0 or pairs[0][1] < 0 or pairs[-1][1] > segment.end_offset + 1:
        raise _damaged_epochs(segment, f"epochs from offset {pairs[0][1]} to {pairs[-1][1]}")
    return pairs


def _damaged_epochs(segment: RemoteLogSegmentMetadata, reason: str) -> DamagedRemoteObject:
    return DamagedRemoteObject(object_name(segment, PartType.LEADER_EPOCHS), 0, reason)
