"""`quorum-state`: the vote and epoch of a voter as JSON, in Kafka's two forms (KIP-595, KIP-853).

Version 1 belongs to kraft.version 1, whose voters stand in the log; version 0 to kraft.version 0, whose voters
stand in `controller.quorum.voters` and, as a note, in here.

Odradek keeps a second copy with a checksum in the log directory, `odradek-quorum-state`: a voter that has forgotten
its vote might vote twice in one epoch. The copy is written first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...protocol.checksum import crc32c
from ...protocol.node_ids import NO_NODE
from ...protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from .writes import read_if_exists, set_aside, write_atomically

quorum_log = logging.getLogger("odradek.quorum")

QUORUM_STATE = "quorum-state"
COPY_NAME = "odradek-quorum-state"


class CorruptQuorumState(OSError):
    """The file is not one that a voter has written; a voter that has forgotten its vote may not go on by itself."""


@dataclass(frozen=True, slots=True)
class QuorumState:
    leader_id: int = NO_NODE
    leader_epoch: int = 0
    voted_id: int = NO_NODE
    voted_directory_id: bytes = ZERO_UUID


def encode_quorum_state(state: QuorumState, kraft_version: int, voters: Sequence[int]) -> bytes:
    value: dict[str, object] = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
    }
    if kraft_version > 0:
        value |= {"votedDirectoryId": uuid_to_text(state.voted_directory_id), "data_version": 1}
    else:
        current = [{"voterId": voter} for voter in voters]
        value = {"clusterId": "", **value, "appliedOffset": 0, "currentVoters": current, "data_version": 0}
    return json.dumps(value, separators=(",", ":")).encode()


def decode_quorum_state(content: bytes) -> QuorumState:
    """Raises CorruptQuorumState."""
    try:
        value = json.loads(content)
        if value["data_version"] not in (0, 1):
            raise CorruptQuorumState(f"version {value['data_version']} is not known")
        voted_directory = uuid_from_text(value["votedDirectoryId"]) if "votedDirectoryId" in value else ZERO_UUID
        return QuorumState(int(value["leaderId"]), int(value["leaderEpoch"]), int(value["votedId"]), voted_directory)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptQuorumState(f"{error!r} in {content[:200]!r}") from None


def read_quorum_state(directory: Path) -> QuorumState | None:
    """Returns the state in the directory of the metadata log; None when there is neither the file nor its copy.

    A file that is missing or damaged is replaced by its copy. Raises CorruptQuorumState where there is none.
    """
    path = directory / QUORUM_STATE
    copy = _read_copy(directory)
    try:
        content = read_if_exists(str(path))
        state = None if content is None else decode_quorum_state(content)
    except (CorruptQuorumState, IsADirectoryError) as error:
        if copy is None:
            raise CorruptQuorumState(f"{path}: {error}") from None
        quorum_log.warning("%s: damaged (%s); the copy in %s is used", path, error, COPY_NAME)
        return copy
    if copy is None or (state is not None and _is_newer(state, copy)):
        return state
    if state is None:
        quorum_log.warning("%s: missing; the copy in %s is used", path, COPY_NAME)
    return copy


def newest_epoch(directory: Path) -> int | None:
    """Returns the newest epoch of the file and its copy; None where neither can be read."""
    found = [] if (copy := _read_copy(directory)) is None else [copy.leader_epoch]
    with suppress(CorruptQuorumState, IsADirectoryError):
        if (content := read_if_exists(str(directory / QUORUM_STATE))) is not None:
            found.append(decode_quorum_state(content).leader_epoch)
    return max(found, default=None)


def _is_newer(state: QuorumState, copy: QuorumState) -> bool:
    """Returns whether another program, Apache Kafka, has written the file after the copy."""
    forgets = copy.voted_id == NO_NODE and state.voted_id != NO_NODE
    return state.leader_epoch > copy.leader_epoch or (state.leader_epoch == copy.leader_epoch and forgets)


def _read_copy(directory: Path) -> QuorumState | None:
    """None also for a damaged copy: the file itself counts then."""
    path = directory.parent / COPY_NAME
    try:
        content, _, checksum = (read_if_exists(str(path)) or b"").rpartition(b"\n")
        return decode_quorum_state(content) if checksum == b"%08x" % crc32c(content) else None
    except (CorruptQuorumState, IsADirectoryError):
        return None


def write_quorum_state(directory: Path, state: QuorumState, kraft_version: int, voters: Sequence[int]) -> None:
    """Waits until the disk has it: a promise that is forgotten is a second vote."""
    content = encode_quorum_state(state, kraft_version, voters)
    for path, written in (
        (directory.parent / COPY_NAME, content + b"\n%08x" % crc32c(content)),
        (directory / QUORUM_STATE, content),
    ):
        if path.is_dir():
            set_aside(str(path))
        write_atomically(str(path), written)
