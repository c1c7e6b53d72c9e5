"""The metadata log on a disk, as a replica of the quorum sees it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from odradek.metadata.image import EMPTY_IMAGE
from odradek.protocol.internal.cluster_metadata import NoOpRecord
from odradek.protocol.internal.control_records import KRaftVersionRecord, LeaderChangeMessage, VotersRecord, VotersVoter
from odradek.protocol.records.control import ControlRecord, ControlType
from odradek.protocol.records.errors import BatchError
from odradek.protocol.records.record import Record, encode_batch
from odradek.replication.quorum.log import EpochEnd, SnapshotId
from odradek.replication.quorum.voters import Address
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller import replicated_log as quorum_replicated_log
from odradek.server.controller.joining import _quorum_config, voter_history
from odradek.server.controller.metadata_log import QuorumLog
from odradek.server.controller.metadata_snapshots import encode_snapshot, write_image_snapshot
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.controller.replicated_log import ReplicatedQuorumLog

from tests.harness.patches import patch_for_this_thread

LEADER = ControlRecord(ControlType.LEADER_CHANGE, LeaderChangeMessage(version=0, leader_id=1))


def opened(directory: Path) -> ReplicatedQuorumLog:
    directory.mkdir(exist_ok=True)
    return ReplicatedQuorumLog(QuorumLog(directory, BrokerConfig({}), 1), lambda: 1)


def grow(log: ReplicatedQuorumLog, epoch: int, records: int) -> None:
    """Begins an epoch, and appends `records` records."""
    log.append_control([LEADER], epoch, 1)
    for _ in range(records):
        log.quorum_log.append([NoOpRecord()], epoch, 1, 30, True)


@pytest.fixture
def log(tmp_path: Path) -> ReplicatedQuorumLog:
    made = opened(tmp_path / "log")
    grow(made, 2, 3)
    grow(made, 5, 1)
    return made


def test_empty_log_has_no_epoch(tmp_path: Path) -> None:
    """A voter with it is behind every other, and votes for each."""
    empty = opened(tmp_path / "empty")
    assert (empty.end_offset, empty.last_epoch, empty.latest_snapshot) == (0, 0, None)


def test_epochs_end_where_the_next_began(log: ReplicatedQuorumLog) -> None:
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 6, 5)
    ends = {epoch: log.end_offset_for(epoch) for epoch in (1, 2, 4, 5, 9)}
    assert ends == {
        1: EpochEnd(1, 0),
        2: EpochEnd(2, 4),
        4: EpochEnd(2, 4),
        5: EpochEnd(5, 6),
        9: EpochEnd(5, 6),
    }


def test_a_log_that_is_cut_ends_in_the_epoch_before_and_is_no_longer_synced_there(log: ReplicatedQuorumLog) -> None:
    log.synced_offset = log.lowest_end = 6
    log.truncate(3)
    assert (log.end_offset, log.last_epoch, log.synced_offset, log.lowest_end) == (3, 2, 3, 3)
    assert log.end_offset_for(5) == EpochEnd(2, 3)


def test_fetched_bytes_append_with_control_records(log: ReplicatedQuorumLog, tmp_path: Path) -> None:
    other = opened(tmp_path / "other")
    controls = other.append_fetched(memoryview(log.read(0, 1 << 20)), 5)
    assert [(offset, control.type) for offset, control in controls] == [
        (0, ControlType.LEADER_CHANGE),
        (4, ControlType.LEADER_CHANGE),
    ]
    assert (other.end_offset, other.last_epoch) == (6, 5)
    assert other.read(0, 1 << 20) == log.read(0, 1 << 20)


def test_a_batch_that_was_cut_off_is_left_for_the_next_fetch(log: ReplicatedQuorumLog, tmp_path: Path) -> None:
    other = opened(tmp_path / "other")
    whole = log.read(0, 1 << 20)
    other.append_fetched(whole[:-1], 5)
    assert other.end_offset == 5
    assert other.append_fetched(b"", 5) == ()


def test_a_snapshot_comes_in_pieces_and_replaces_the_log(log: ReplicatedQuorumLog, tmp_path: Path) -> None:
    image = EMPTY_IMAGE._replace(offset=99, epoch=7, last_append_timestamp_ms=5)
    (tmp_path / "leader").mkdir()
    leader = opened(tmp_path / "leader")
    leader.quorum_log.add_snapshot(write_image_snapshot(tmp_path / "leader", image, QuorumVoters(), 1), 1)
    snapshot, position, size = SnapshotId(100, 7), 0, 1
    assert leader.read_snapshot(SnapshotId(1, 1), 0, 10) is None
    while position < size:
        size, data = leader.read_snapshot(snapshot, position, 50) or (0, b"")
        position = log.write_snapshot(snapshot, position, data)
    adopted: list[object] = []
    log = ReplicatedQuorumLog(log.quorum_log, lambda: 1, adopted.append)
    log.adopt_snapshot(snapshot)
    assert (log.start_offset, log.end_offset, log.last_epoch, log.synced_offset) == (100, 100, 7, 100)
    assert log.earliest_snapshot == log.latest_snapshot == snapshot and adopted == [snapshot]
    assert log.end_offset_for(7) == EpochEnd(7, 100) and log.end_offset_for(3) == EpochEnd(3, 100)
    again = opened(tmp_path / "log")
    assert (again.end_offset, again.latest_snapshot) == (100, snapshot)


def test_a_snapshot_that_is_fetched_is_synced_as_it_comes(
    log: ReplicatedQuorumLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    patch_for_this_thread(monkeypatch, os, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_size))
    monkeypatch.setattr(quorum_replicated_log, "_SYNC_BYTES", 100)
    position = 0
    for size in (60, 60, 70, 150, 10):
        position = log.write_snapshot(SnapshotId(100, 7), position, bytes(size))
    assert (position, synced) == (350, [120, 340])


def test_snapshot_that_is_fetched_again_has_nothing_of_the_first_attempt(
    log: ReplicatedQuorumLog, tmp_path: Path
) -> None:
    snapshot = SnapshotId(100, 7)
    assert log.write_snapshot(snapshot, 0, b"first attempt") == 13
    assert log.write_snapshot(snapshot, 0, b"se") == 2
    assert log.write_snapshot(snapshot, 2, b"cond") == 6
    (partial,) = [one for one in (tmp_path / "log").iterdir() if one.name.startswith(f"{100:020}-")]
    assert partial.read_bytes() == b"second"
    assert partial.stat().st_mode & 0o777 == 0o600


def test_the_first_snapshot_of_a_directory_has_nothing_before_it(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    path = tmp_path / "log" / f"{0:020d}-{0:010d}.checkpoint"
    path.write_bytes(b"".join(encode_snapshot((), 30, 0, QuorumVoters(1, []), 1)))
    log = opened(tmp_path / "log")
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, 0)
    assert [control.record.type for control in log.snapshot_controls()] == [
        ControlType.SNAPSHOT_HEADER,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
        ControlType.SNAPSHOT_FOOTER,
    ]


def test_voters_are_known_to_a_log_that_begins_below_its_newest_snapshot(tmp_path: Path) -> None:
    voters = [VotersVoter(voter_id=1, voter_directory_id=bytes(15) + b"\x07"), VotersVoter(voter_id=2)]
    version, record = KRaftVersionRecord(kraft_version=1), VotersRecord(voters=voters)
    log = opened(tmp_path / "log")
    said = [ControlRecord(ControlType.KRAFT_VERSION, version), ControlRecord(ControlType.KRAFT_VOTERS, record)]
    log.append_control([LEADER, *said], 2, 1)
    grow(log, 3, 2)
    image = EMPTY_IMAGE._replace(offset=3, epoch=3, last_append_timestamp_ms=5)
    log.quorum_log.add_snapshot(write_image_snapshot(tmp_path / "log", image, QuorumVoters(1, voters), 1), 1)
    log.quorum_log.log.flush(1)
    again = opened(tmp_path / "log")
    assert (again.start_offset, again.latest_snapshot) == (0, SnapshotId(4, 3))
    history = voter_history(BrokerConfig({}), again)
    assert (history.current.ids, history.current_offset, history.kraft_version) == ((1, 2), 3, 1)


def test_voters_at_the_first_offset_of_a_log_without_a_snapshot_take_the_place_of_the_configured(
    tmp_path: Path,
) -> None:
    log = opened(tmp_path / "log")
    config = BrokerConfig({"controller.quorum.voters": "7@seven:9093"})
    history = voter_history(config, log)
    assert (history.current.ids, history.current_offset, history.kraft_version) == ((7,), -1, 0)
    log.append_control([ControlRecord(ControlType.KRAFT_VOTERS, VotersRecord(voters=[VotersVoter(voter_id=0)]))], 1, 1)
    log.append_control([ControlRecord(ControlType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=1))], 1, 1)
    history = voter_history(config, log)
    assert (history.current.ids, history.current_offset, history.kraft_version) == ((0,), 0, 1)


@pytest.mark.parametrize(("configured", "used_ms"), [("0", 1), ("1", 1), ("2", 2), ("1500", 1500)])
def test_quorum_has_the_configured_times_and_sizes_and_no_election_timeout_of_zero(
    configured: str, used_ms: int
) -> None:
    properties = {
        "controller.quorum.election.timeout.ms": configured,
        "controller.quorum.election.backoff.max.ms": configured,
        "controller.quorum.fetch.timeout.ms": "21",
        "controller.quorum.request.timeout.ms": "22",
        "controller.quorum.retry.backoff.ms": "23",
    }
    found = _quorum_config(BrokerConfig(properties), "c", [Endpoint("C", "here", 9093)])
    assert (found.election_timeout_ms, found.election_backoff_max_ms) == (used_ms, used_ms)
    assert (found.fetch_timeout_ms, found.request_timeout_ms, found.retry_backoff_ms) == (21, 22, 23)
    assert (found.cluster_id, list(found.addresses), found.auto_join) == ("c", [Address("C", "here", 9093)], False)


def batch_at(offset: int, *, key: bytes = b"k", value: bytes = b"v", control: bool = False, epoch: int = 5) -> bytes:
    return encode_batch([Record(offset, 1, key, value)], base_offset=offset, leader_epoch=epoch, control=control)


def rubbish_at(offset: int) -> bytes:
    """Returns a control batch with a correct CRC and an unreadable record."""
    return batch_at(offset, key=b"\0\0\0\2", value=b"\0", control=True)


@pytest.mark.parametrize(
    "data",
    [
        batch_at(6)[:-1] + b"\xff",
        batch_at(0),
        batch_at(9),
        rubbish_at(6),
        batch_at(6) + rubbish_at(7),
        batch_at(6) + batch_at(6),
        batch_at(6) + batch_at(7, epoch=21),
    ],
    ids=[
        "a flipped byte",
        "a batch again",
        "a gap",
        "rubbish",
        "rubbish behind a good batch",
        "a batch twice",
        "an epoch",
    ],
)
def test_batches_that_cannot_be_read_are_not_appended(log: ReplicatedQuorumLog, data: bytes) -> None:
    with pytest.raises(BatchError):
        log.append_fetched(data, 5)
    assert log.end_offset == 6
    log.append_fetched(batch_at(6), 5)
    assert log.end_offset == 7


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        ({"metadata.max.retention.bytes": "-1", "metadata.max.retention.ms": "-1"}, [2, 3, 5]),
        ({"metadata.max.retention.bytes": "10000000", "metadata.max.retention.ms": "-1"}, [2, 3, 5]),
        ({"metadata.max.retention.bytes": "1", "metadata.max.retention.ms": "-1"}, [5]),
        ({"metadata.max.retention.bytes": "-1", "metadata.max.retention.ms": "1000"}, [5]),
    ],
    ids=["without limits", "small", "too large", "too old"],
)
def test_snapshots_and_the_log_below_them_stay_within_the_limits_of_retention(
    tmp_path: Path, retention: dict[str, str], kept: list[int]
) -> None:
    (tmp_path / "log").mkdir()
    quorum_log = QuorumLog(tmp_path / "log", BrokerConfig(retention), 1)
    grow(ReplicatedQuorumLog(quorum_log, lambda: 1), 2, 6)
    for offset in (1, 2, 4):
        image = EMPTY_IMAGE._replace(offset=offset, epoch=2, last_append_timestamp_ms=offset)
        now_ms = 1 + 1_000_000 * (offset == 4)
        quorum_log.add_snapshot(write_image_snapshot(tmp_path / "log", image, QuorumVoters(), 1), now_ms)
    assert [snapshot.end_offset for snapshot in quorum_log.snapshots] == kept
    assert len(list((tmp_path / "log").glob("*.checkpoint"))) == len(kept)
    assert quorum_log.log.log_start_offset == (0 if len(kept) > 1 else 5)
