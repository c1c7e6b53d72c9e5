"""Files of metadata snapshots: every damaged byte is found, and control batches are read alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.protocol.internal.cluster_metadata import FeatureLevelRecord, NoOpRecord, TopicRecord
from odradek.protocol.internal.control_records import VotersVoter
from odradek.protocol.records.batch import HEADER_BYTES, read_header
from odradek.protocol.records.errors import BatchError, CorruptBatch
from odradek.server.controller.metadata_batches import decode_batches, encode_records
from odradek.server.controller.metadata_snapshots import (
    SnapshotId,
    check_snapshot,
    control_batches,
    encode_snapshot,
    iter_batches,
    last_contained_timestamp_ms,
    partial_path,
    read_records,
    sound_snapshots,
    write_snapshot_file,
)
from odradek.server.controller.quorum_voters import QuorumVoters

RECORDS = [
    FeatureLevelRecord(name="metadata.version", feature_level=25),
    *(TopicRecord(name=f"orders-{number}", topic_id=bytes([number]) * 16) for number in range(3)),
]
NAME = "00000000000000000005-0000000001.checkpoint"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    quorum = QuorumVoters(1, [VotersVoter(voter_id=7)], 1234)
    write_snapshot_file(path, encode_snapshot(RECORDS, 25, 1, quorum, 5678))
    return path


def damage(path: Path, content: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(content)


def test_whole_snapshot_has_what_was_written(path: Path) -> None:
    check_snapshot(path)
    assert read_records(path) == RECORDS
    assert last_contained_timestamp_ms(path) == 1234
    assert [one.file_name for one in sound_snapshots(path.parent).sound] == [NAME]


def test_byte_that_changes_in_any_batch_makes_the_snapshot_damaged(path: Path) -> None:
    """Bytes before the checksum of a batch, its offset and length, are checked by what follows them."""
    whole, position = path.read_bytes(), 0
    for batch in list(iter_batches(path)):
        for at in (17, 21, HEADER_BYTES - 1, HEADER_BYTES + 3, len(batch) - 1):
            content = bytearray(whole)
            content[position + at] ^= 0x04
            damage(path, content)
            with pytest.raises(BatchError):
                check_snapshot(path)
            assert sound_snapshots(path.parent).sound == []
        position += len(batch)
    assert position == len(whole)


def test_no_bytes_are_no_batches_and_a_rest_is_damage() -> None:
    assert list(decode_batches(b"", QuorumVoters())) == []
    batch = encode_records([NoOpRecord()], 5, 3, 7, 30)
    (found,) = decode_batches(batch, QuorumVoters())
    assert found.header.base_offset == 5 and found.records == [NoOpRecord()]
    for rest in (1, len(batch) - 1):
        with pytest.raises(CorruptBatch, match=f"{rest} bytes after the last whole batch"):
            list(decode_batches(batch + batch[:rest], QuorumVoters()))


def test_snapshot_without_its_last_batch_is_damaged(path: Path) -> None:
    *rest, _ = iter_batches(path)
    damage(path, b"".join(rest))
    with pytest.raises(BatchError):
        check_snapshot(path)


def test_control_batches_are_yielded_without_the_records_between_them(path: Path) -> None:
    found = list(control_batches(path))
    assert found == [batch for batch in iter_batches(path) if read_header(batch).is_control]
    assert len(found) == 2


def test_snapshot_is_readable_to_its_owner_only_while_it_is_written_and_read_only_afterwards(tmp_path: Path) -> None:
    """Snapshots have the credentials of users."""
    path = tmp_path / SnapshotId(1, 1).file_name
    modes: list[int] = []

    def batches() -> Iterator[bytes]:
        for _ in range(2):
            modes.append(partial_path(path).stat().st_mode & 0o777)
            yield b"batch"

    write_snapshot_file(path, batches())
    assert modes == [0o600, 0o600]
    assert path.read_bytes() == b"batch" * 2 and path.stat().st_mode & 0o222 == 0
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_snapshot_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    def batches() -> Iterator[bytes]:
        yield b"batch"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_snapshot_file(tmp_path / SnapshotId(1, 1).file_name, batches())
    assert list(tmp_path.iterdir()) == []
