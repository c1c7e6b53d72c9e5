"""The election state of a voter and its copy: a damaged or missing file is replaced, and a newer one counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.uuids import ZERO_UUID
from odradek.storage.files.quorum_state import (
    COPY_NAME,
    QUORUM_STATE,
    CorruptQuorumState,
    QuorumState,
    read_quorum_state,
    write_quorum_state,
)

STATE = QuorumState(2, 7, 3, bytes(range(16)))
OLDER = QuorumState(1, 6, 1, ZERO_UUID)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    write_quorum_state(directory, STATE, 1, [1, 2, 3])
    return directory


def test_state_is_read_as_written(directory: Path) -> None:
    assert read_quorum_state(directory) == STATE


@pytest.mark.parametrize("damage", [b"", b"{", b"\0" * 40, None])
def test_damaged_or_missing_file_is_replaced_by_its_copy(directory: Path, damage: bytes | None) -> None:
    """A voter that forgets its vote may vote twice in an epoch."""
    path = directory / QUORUM_STATE
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert read_quorum_state(directory) == STATE


@pytest.mark.parametrize("at", [0, 20, -1])
def test_damaged_copy_does_not_count(directory: Path, at: int) -> None:
    copy = directory.parent / COPY_NAME
    content = bytearray(copy.read_bytes())
    content[at] ^= 1
    copy.write_bytes(content)
    assert read_quorum_state(directory) == STATE
    (directory / QUORUM_STATE).write_bytes(b"{")
    with pytest.raises(CorruptQuorumState):
        read_quorum_state(directory)


def test_newer_of_file_and_copy_counts(directory: Path) -> None:
    newest = (directory / QUORUM_STATE).read_bytes()
    write_quorum_state(directory, OLDER, 1, [1, 2, 3])
    assert read_quorum_state(directory) == OLDER
    (directory / QUORUM_STATE).write_bytes(newest)
    assert read_quorum_state(directory) == STATE, "another program has written it since"


def test_directory_without_a_file_and_a_copy_has_no_state(tmp_path: Path) -> None:
    assert read_quorum_state(tmp_path / "__cluster_metadata-0") is None
