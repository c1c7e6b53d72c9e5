"""Small files that say whose a directory is: `meta.properties`, `partition.metadata` and `quorum-state`.

`meta.properties`: whose log directory this is (version 1, KIP-631 and KIP-858).
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...protocol.checksum import crc32c
from ...protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from .open_files import LOG_SUFFIX, LogDirectoryFailure, read_if_exists, set_aside, write_atomically

META_PROPERTIES = "meta.properties"
_A_LOG = re.compile(r"[a-zA-Z0-9._-]+-\d+")
VERSION = 1


class InvalidMetaProperties(Exception):
    """The file has an invalid value, or contradicts the other directories of the broker."""


@dataclass(slots=True, frozen=True)
class MetaProperties:
    """`directory_id`: 16 bytes, None where an older broker has written the file."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None


def encode_meta_properties(properties: MetaProperties) -> bytes:
    values = {"cluster.id": properties.cluster_id, "version": str(VERSION), "node.id": str(properties.node_id)}
    if properties.directory_id is not None:
        values["directory.id"] = uuid_to_text(properties.directory_id)
    return "".join(("#\n", *(f"{key}={value}\n" for key, value in values.items()))).encode()


def decode_meta_properties(content: bytes) -> MetaProperties:
    """Raises InvalidMetaProperties."""
    lines = (line.strip() for line in content.decode(errors="replace").splitlines())
    pairs = (line.replace("\\", "").partition("=") for line in lines if line and line[0] not in "#!")
    values = {key.strip(): value.strip() for key, _, value in pairs}
    # Version 0 is ZooKeeper's, with `broker.id`; the file may still be there after a migration.
    if values.get("version", "0") not in ("0", str(VERSION)):
        raise InvalidMetaProperties(f"version {values['version']} is not known")
    try:
        node_id = int(values["node.id" if "node.id" in values or "broker.id" not in values else "broker.id"])
        directory_id = uuid_from_text(values["directory.id"]) if "directory.id" in values else None
        return MetaProperties(values["cluster.id"], node_id, directory_id)
    except KeyError as error:
        raise InvalidMetaProperties(f"no {error.args[0]}") from None
    except ValueError as error:
        raise InvalidMetaProperties(str(error)) from None


def read_meta_properties(directory: str) -> MetaProperties | None:
    """None when the directory is not formatted. Raises InvalidMetaProperties, LogDirectoryFailure."""
    path = f"{directory}/{META_PROPERTIES}"
    try:
        content = read_if_exists(path)
    except IsADirectoryError:
        raise InvalidMetaProperties(f"{path}: a directory; {_advice(directory)}") from None
    except OSError as error:
        raise LogDirectoryFailure(directory, f"reading {path}", error) from error
    try:
        return None if content is None else decode_meta_properties(content)
    except InvalidMetaProperties as error:
        raise InvalidMetaProperties(f"{path}: {error}; {_advice(directory)}") from None


def check_unused(directory: str) -> None:
    """Formatting a directory that has data would give it to another cluster. Raises InvalidMetaProperties, OSError."""
    try:
        with os.scandir(directory) as entries:
            used = [entry.name for entry in entries if _A_LOG.fullmatch(entry.name) and entry.is_dir()]
    except FileNotFoundError:
        return
    # Formatting writes this file last: a directory with nothing but the voters of a new cluster is not formatted yet.
    used = [name for name in used if any(one.endswith(LOG_SUFFIX) for one in os.listdir(f"{directory}/{name}"))]
    if used:
        raise InvalidMetaProperties(
            f"{directory}/{META_PROPERTIES}: missing, and the directory has data ({min(used)}); {_advice(directory)}"
        )


def _advice(directory: str) -> str:
    return f"restore the file, or rewrite it with `odradek repair --data-dir {directory}`"


def write_meta_properties(directory: str, properties: MetaProperties) -> None:
    """Raises LogDirectoryFailure."""
    try:
        write_atomically(f"{directory}/{META_PROPERTIES}", encode_meta_properties(properties))
    except OSError as error:
        raise LogDirectoryFailure(directory, f"writing {META_PROPERTIES}", error) from error


# `partition.metadata`: which topic, by its id, a partition's directory belongs to (KIP-516).
#
# ```
# version: 0
# topic_id: 5I3mhVqkSGyYXlXPIvSLxA
# ```


PARTITION_METADATA = "partition.metadata"
_VERSION_LINE = "version: 0"
_TOPIC_ID = "topic_id: "
#: Two characters of the file's text.
_MOST_FLIPPED_BITS = 12


class CorruptPartitionMetadata(Exception):
    """The file does not name a topic id."""


@lru_cache(maxsize=256)
def encode_partition_metadata(topic_id: bytes) -> bytes:
    # As Kafka writes it: no newline at the end.
    return f"{_VERSION_LINE}\n{_TOPIC_ID}{uuid_to_text(topic_id)}".encode()


def decode_partition_metadata(content: bytes) -> bytes:
    """The topic id. Raises CorruptPartitionMetadata."""
    lines = content.decode(errors="replace").splitlines()
    if len(lines) < 2 or lines[0] != _VERSION_LINE or not lines[1].startswith(_TOPIC_ID):
        raise CorruptPartitionMetadata(f"no version 0 and topic id in {content[:100]!r}")
    try:
        return uuid_from_text(lines[1].removeprefix(_TOPIC_ID))
    except ValueError as error:
        raise CorruptPartitionMetadata(str(error)) from None


def is_damaged_copy(found: bytes, expected: bytes) -> bool:
    """Returns whether an id that was read is the expected one, damaged: ids of two topics differ in half of their bits."""
    return 0 < (int.from_bytes(found) ^ int.from_bytes(expected)).bit_count() <= _MOST_FLIPPED_BITS


def read_topic_id(path: str) -> bytes | None:
    """The topic id of the partition in the directory `path`; None when it has none yet."""
    content = read_if_exists(f"{path}/{PARTITION_METADATA}")
    return decode_partition_metadata(content) if content else None


def write_topic_id(path: str, topic_id: bytes, *, sync: bool = True) -> None:
    """To be there before the first record is, so that no log is ever taken for that of another topic."""
    write_atomically(f"{path}/{PARTITION_METADATA}", encode_partition_metadata(topic_id), sync=sync)


# `quorum-state`: the vote and epoch of a voter as JSON, in Kafka's two forms (KIP-595, KIP-853).
#
# Version 1 belongs to kraft.version 1, whose voters stand in the log; version 0 to kraft.version 0, whose voters
# stand in `controller.quorum.voters` and, as a note, in here.
#
# Odradek keeps a second copy with a checksum in the log directory, `odradek-quorum-state`: a voter that has forgotten
# its vote might vote twice in one epoch. The copy is written first.

quorum_log = logging.getLogger("odradek.quorum")

QUORUM_STATE = "quorum-state"
COPY_NAME = "odradek-quorum-state"
NO_NODE = -1


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
    except (ValueError, KeyError, TypeError) as error:
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
