"""The start's opening of the metadata log: who has it alone, what a damaged one becomes, and which directories fit it."""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random

import pytest
from odradek.client.wording import counted
from odradek.metadata.image import EMPTY_IMAGE
from odradek.protocol.internal.cluster_metadata import FeatureLevelRecord, TopicRecord
from odradek.protocol.records.batch import iter_headers
from odradek.replication.quorum.log import SnapshotId as RaftEnd
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller import metadata_log
from odradek.server.controller.formatting import format_directories
from odradek.server.controller.metadata_log import DIRECTORY_NAME, MetadataLost, QuorumLog, flush_on
from odradek.server.controller.metadata_opening import (
    InvalidQuorum,
    _check_directory,
    _check_partitions,
    _configured,
    _open_quorum_log,
    open_log,
)
from odradek.server.controller.metadata_snapshots import (
    SnapshotId,
    encode_snapshot,
    last_contained_timestamp_ms,
    write_snapshot_file,
)
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.runtime.sliced_work import run_to_completion
from odradek.server.runtime.thread_pools import ThreadPools
from odradek.storage.directory import LogDirectory
from odradek.storage.files.partition_metadata import write_topic_id
from odradek.storage.files.quorum_state import COPY_NAME, QuorumState, read_quorum_state, write_quorum_state
from odradek.storage.log import log as log_file
from odradek.storage.log.flushing import PendingFlush
from odradek.testing.simulation.disk import Disk
from odradek.testing.simulation.replacements import Replacements

from tests.server.harness.images import image_with
from tests.server.harness.metadata_logs import (
    CLOCK,
    METADATA_VERSION,
    NODE_ID,
    OTHER,
    config_of,
    of_several,
    topic,
)  # fmt: skip
from tests.server.harness.quorum_logs import quorum_log_in, voter
from tests.server.harness.unlocked_directory import unlocked_directory

TOPIC_ID, OTHER_ID = b"t" * 16, b"o" * 16
RECORDS_PER_SEGMENT = 3


def written(config: BrokerConfig, count: int) -> Path:
    """Writes a log with so many records, each in a segment, and closes it. Returns its folder."""
    folder = Path(config.metadata_log_dir, DIRECTORY_NAME)
    folder.mkdir(parents=True, exist_ok=True)
    opened = QuorumLog(folder, config, CLOCK.now_ms())
    for number in range(count):
        opened.append([topic(f"t{number}")], 1, CLOCK.now_ms(), METADATA_VERSION, True)
        opened.log.roll(CLOCK.now_ms())
    opened.close(CLOCK.now_ms())
    return folder


def write_snapshot(folder: Path, end_offset: int) -> Path:
    path = folder / SnapshotId(end_offset, 1).file_name
    records = [FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION)]
    write_snapshot_file(path, encode_snapshot(records, METADATA_VERSION, 1, QuorumVoters(), 0))
    return path


def test_voters_of_the_configuration_are_their_ids(tmp_path: Path) -> None:
    assert _configured(of_several(tmp_path)) == {NODE_ID, OTHER}
    assert _configured(config_of(tmp_path)) == set()


def test_sound_log_is_opened_as_it_is_and_a_damaged_snapshot_is_renamed(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    folder = written(config, 3)
    write_snapshot(folder, 1)
    damaged = write_snapshot(folder, 2)
    damaged.chmod(0o600)
    damaged.write_bytes(damaged.read_bytes()[:-9])
    opened = _open_quorum_log(config, CLOCK, folder)
    assert (opened.log.log_start_offset, opened.end_offset) == (0, 3)
    assert [one.end_offset for one in opened.snapshots] == [1]
    assert not damaged.exists()
    assert len(list(folder.glob(f"{damaged.name}.damaged*"))) == 1


def hole_in(folder: Path) -> None:
    """Removes the records of a segment in the middle of the log."""
    first, second, *_ = sorted(folder.glob("*.log"))
    assert first.name < second.name
    second.write_bytes(b"\0" * second.stat().st_size)


def test_single_voter_does_not_start_with_a_damaged_log(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    folder = written(config, 3)
    hole_in(folder)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(MetadataLost, match="odradek repair"):
        _open_quorum_log(config, CLOCK, folder)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_damaged_log_of_a_larger_quorum_begins_again_with_its_snapshots_and_votes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = of_several(tmp_path)
    folder = written(config, 3)
    snapshot = write_snapshot(folder, 0)
    write_quorum_state(folder, QuorumState(leader_id=OTHER, leader_epoch=7), 0, [NODE_ID, OTHER])
    hole_in(folder)
    opened = _open_quorum_log(config, CLOCK, folder)
    assert (opened.end_offset, [one.file_name for one in opened.snapshots]) == (0, [snapshot.name])
    state = read_quorum_state(folder)
    assert state is not None and state.leader_epoch == 7
    [kept] = tmp_path.glob(f"{DIRECTORY_NAME}.damaged*")
    assert len(list(kept.glob("*.log"))) == 4
    assert "the log is fetched again from the quorum" in caplog.text and str(kept) in caplog.text


@pytest.mark.parametrize("number", [0, 1, 2])
def test_log_of_several_voters_without_a_segment_s_records_is_fetched_again(number: int, tmp_path: Path) -> None:
    """Records after the hole do not apply without those before it: a node that loads them does not start."""
    config = of_several(tmp_path)
    folder = written(config, 3)
    emptied = sorted(folder.glob("*.log"))[number]
    emptied.write_bytes(b"")
    opened = _open_quorum_log(config, CLOCK, folder)
    is_last = number == 2
    assert (opened.end_offset, len(opened.log.damage.ranges)) == (2 if is_last else 0, 0)
    assert len(list(tmp_path.glob(f"{DIRECTORY_NAME}.damaged*"))) == int(not is_last)
    assert opened.acknowledged == RaftEnd(3, 1)
    opened.close(CLOCK.now_ms())


def test_log_that_begins_again_survives_a_power_loss(tmp_path: Path) -> None:
    """The snapshots and the vote are copies; the acknowledged end was never synced by a flush."""
    config = of_several(tmp_path)
    replaced, disk = Replacements(), Disk(tmp_path, Random(1), lambda: 0.0)
    disk.install(replaced)
    try:
        folder = written(config, 3)
        snapshot = write_snapshot(folder, 1)
        write_quorum_state(folder, QuorumState(leader_id=OTHER, leader_epoch=7), 0, [NODE_ID, OTHER])
        (tmp_path / COPY_NAME).unlink()
        sorted(folder.glob("*.log"))[1].write_bytes(b"")
        _open_quorum_log(config, CLOCK, folder)
        disk.power_failure(tmp_path)
    finally:
        replaced.undo()
    opened = _open_quorum_log(config, CLOCK, folder)
    assert [one.file_name for one in opened.snapshots] == [snapshot.name]
    assert opened.acknowledged == RaftEnd(3, 1)
    state = read_quorum_state(folder)
    assert state is not None and state.leader_epoch == 7
    opened.close(CLOCK.now_ms())


@pytest.mark.parametrize(
    ("damaged", "snapshot", "is_lost"),
    [(0, None, True), (0, 0, True), (0, 1, False), (1, 1, True), (1, 2, False), (2, 2, True), (2, 3, False)],
)
def test_log_must_be_whole_from_the_end_of_its_newest_snapshot_on(
    damaged: int, snapshot: int | None, is_lost: bool, tmp_path: Path
) -> None:
    config = config_of(tmp_path)
    folder = written(config, 4)
    path = sorted(folder.glob("*.log"))[damaged]
    path.write_bytes(bytes(path.stat().st_size))
    if snapshot is not None:
        write_snapshot(folder, snapshot)
    if is_lost:
        with pytest.raises(MetadataLost, match=r"a cut there would lose \d+ records? after them"):
            _open_quorum_log(config, CLOCK, folder)
    else:
        opened = _open_quorum_log(config, CLOCK, folder)
        assert opened.end_offset == 4
        opened.close(CLOCK.now_ms())


async def test_flush_of_a_log_with_many_segments_goes_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = ThreadPools()
    monkeypatch.setattr(log_file, "MOST_FLUSHED_SEGMENTS", 2)
    config = config_of(tmp_path)
    opened = QuorumLog(written(config, 5), config, CLOCK.now_ms())
    assert (opened.log.recovery_point, len(opened.log.segments)) == (0, 6)
    ends: list[int] = []
    flushed = opened.flushed

    def noted(flush: PendingFlush, now_ms: int) -> None:
        flushed(flush, now_ms)
        ends.append(opened.log.recovery_point)

    monkeypatch.setattr(opened, "flushed", noted)
    await flush_on(opened, pools.metadata, 3, CLOCK.now_ms)
    assert ends == [2, 4]
    await flush_on(opened, pools.metadata, 5, CLOCK.now_ms)
    assert ends == [2, 4, 5] and opened.flushed_end.recorded == RaftEnd(5, 1)
    opened.close(CLOCK.now_ms())
    await pools.stop()


@pytest.mark.parametrize(
    ("start", "snapshot", "is_lost"), [(1, None, True), (1, 0, True), (1, 1, False), (2, 3, False)]
)
def test_log_that_begins_above_its_newest_snapshot_has_lost_metadata(
    start: int, snapshot: int | None, is_lost: bool, tmp_path: Path
) -> None:
    config = config_of(tmp_path)
    folder = written(config, 3)
    for number in range(start):
        for path in folder.glob(f"{number:020d}.*"):
            if path.suffix != ".checkpoint":
                path.unlink()
    if snapshot is not None:
        write_snapshot(folder, snapshot)
    if is_lost:
        with pytest.raises(MetadataLost, match=f"the log begins at offset {start}"):
            _open_quorum_log(config, CLOCK, folder)
    else:
        opened = _open_quorum_log(config, CLOCK, folder)
        assert (opened.log.log_start_offset, opened.end_offset) == (start, 3)


def test_log_of_several_voters_that_begins_above_its_snapshot_is_fetched_again_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = of_several(tmp_path)
    folder = written(config, 3)
    for path in folder.glob(f"{0:020d}.*"):
        path.unlink()
    opened = _open_quorum_log(config, CLOCK, folder)
    assert (opened.log.log_start_offset, opened.end_offset) == (0, 0)
    [kept] = tmp_path.glob(f"{DIRECTORY_NAME}.damaged*")
    assert f"the log is fetched again from the quorum, and kept as {kept}" in caplog.text
    assert "a snapshot: missing or damaged, and the log begins at offset 1" in caplog.text


@pytest.mark.parametrize(
    ("properties", "age_ms", "start"),
    [
        ({}, 1000, 0),
        ({"metadata_max_retention_bytes": "-1"}, 1000, 0),
        ({"metadata_max_retention_bytes": "0"}, 1000, 3),
        ({"metadata_max_retention_bytes": "1"}, 1000, 3),
        ({"metadata_max_retention_bytes": "100000"}, 1000, 0),
        ({"metadata_max_retention_ms": "-1"}, 1000, 0),
        ({"metadata_max_retention_ms": "0"}, 1000, 3),
        ({"metadata_max_retention_ms": "999"}, 1000, 3),
        ({"metadata_max_retention_ms": "1000"}, 1000, 0),
    ],
)
def test_log_is_cut_below_its_newest_snapshot_when_it_is_too_large_or_too_old(
    properties: dict[str, str], age_ms: int, start: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest snapshot and the segments behind it stay."""
    caplog.set_level(logging.INFO)
    folder = written(config_of(tmp_path), 4)
    log = QuorumLog(folder, config_of(tmp_path, **properties), CLOCK.now_ms())
    for end_offset in (1, 3):
        path = write_snapshot(folder, end_offset)
        now_ms = last_contained_timestamp_ms(path) + age_ms
        log.add_snapshot(SnapshotId(end_offset, 1), now_ms)
    assert [one.end_offset for one in log.snapshots] == ([1, 3] if start == 0 else [3])
    assert (log.log.log_start_offset, log.end_offset) == (start, 4)
    assert sorted(int(one.name[:20]) for one in folder.glob("*.log")) == list(range(start, 5))
    assert ("now starts at offset" in caplog.text) == (start > 0)
    assert [one.file_name for one in log.snapshots] == sorted(one.name for one in folder.glob("*.checkpoint"))
    log.close(CLOCK.now_ms())


def test_end_of_a_log_has_the_epoch_of_its_last_record_or_of_its_newest_snapshot(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    folder = written(config, 0)
    log = QuorumLog(folder, config, CLOCK.now_ms())
    assert log.end == RaftEnd(0, 0)
    log.append([topic("a")], 2, CLOCK.now_ms(), METADATA_VERSION, True)
    assert log.end == RaftEnd(1, 2)
    write_snapshot(folder, 9)
    log.replaced_by(SnapshotId(9, 4), CLOCK.now_ms())
    assert log.end == RaftEnd(9, 4)
    log.close(CLOCK.now_ms())


@pytest.mark.parametrize(("end_offset", "recorded"), [(4, (4, 2)), (3, (3, 2)), (2, (2, 1)), (1, (1, 1)), (0, (0, 0))])
def test_recorded_end_after_a_truncation_has_the_epoch_of_the_last_record_that_stays(
    end_offset: int, recorded: tuple[int, int], tmp_path: Path
) -> None:
    config = config_of(tmp_path)
    folder = written(config, 0)
    log = QuorumLog(folder, config, CLOCK.now_ms())
    for epoch in (1, 1, 2, 2, 2):
        log.append([topic("a")], epoch, CLOCK.now_ms(), METADATA_VERSION, True)
    log.flush(CLOCK.now_ms())
    log.truncate(end_offset, CLOCK.now_ms())
    assert log.end_offset == end_offset and log.flushed_end.recorded == RaftEnd(*recorded)
    log.close(CLOCK.now_ms())


def test_snapshot_that_cannot_be_read_is_lost_metadata(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    folder = written(config, 3)
    snapshot = write_snapshot(folder, 2)
    opened = _open_quorum_log(config, CLOCK, folder)
    snapshot.chmod(0o600)
    snapshot.write_bytes(snapshot.read_bytes()[:-9])
    for load in (opened.load_snapshot, opened.load):
        with pytest.raises(MetadataLost, match="the metadata is damaged"):
            run_to_completion(load(CLOCK.now_ms()))
    opened.close(CLOCK.now_ms())


def test_snapshot_is_durable_before_the_log_that_it_replaces_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process was killed between the rename of a fetched snapshot and the sync of the directory."""
    config = config_of(tmp_path)
    folder = written(config, 3)
    write_snapshot(folder, 9)
    opened = QuorumLog(folder, config, CLOCK.now_ms())
    segments_at_sync: list[int] = []
    monkeypatch.setattr(metadata_log, "sync_directory", lambda _: segments_at_sync.append(len([*folder.glob("*.log")])))
    run_to_completion(opened.load_snapshot(CLOCK.now_ms()))
    assert segments_at_sync == [4] and [path.name for path in folder.glob("*.log")] == [f"{9:020}.log"]
    opened.close(CLOCK.now_ms())


def test_snapshot_of_the_first_voters_is_of_epoch_zero(tmp_path: Path) -> None:
    format_directories(config_of(tmp_path), "cluster")
    [snapshot] = (tmp_path / DIRECTORY_NAME).glob("*.checkpoint")
    assert snapshot.name == SnapshotId(0, 0).file_name
    headers = [header for _, header in iter_headers(snapshot.read_bytes())]
    assert headers and {header.leader_epoch for header in headers} == {0}


# ---- who has the log alone


@pytest.mark.parametrize("properties", [{}, {"controller_quorum_bootstrap_servers": "here:9093"}])
def test_single_voter_loads_its_log(properties: dict[str, str], tmp_path: Path) -> None:
    format_directories(config_of(tmp_path), "cluster")
    directory = LogDirectory.open(tmp_path)
    quorum_log, loaded = run_to_completion(open_log(config_of(tmp_path, **properties), CLOCK, [directory]))
    assert loaded is not None
    quorum_log.close(CLOCK.now_ms())
    directory.close()


def test_node_among_configured_voters_loads_nothing_at_its_start(tmp_path: Path) -> None:
    config = of_several(tmp_path)
    format_directories(config, "cluster")
    quorum_log, loaded = run_to_completion(open_log(config, CLOCK, []))
    assert loaded is None
    quorum_log.close(CLOCK.now_ms())


# ---- directories and partitions


@pytest.mark.parametrize(
    ("has_voter", "directory_id", "is_elsewhere", "fits"),
    [
        (True, b"d" * 16, False, True),
        (True, b"x" * 16, False, False),
        (True, b"x" * 16, True, True),
        (False, b"x" * 16, False, True),
    ],
)
def test_directory_of_the_log_has_the_id_of_its_voter(
    has_voter: bool, directory_id: bytes, is_elsewhere: bool, fits: bool, tmp_path: Path
) -> None:
    voters = [voter(NODE_ID, directory_id=b"d" * 16)] if has_voter else []
    quorum_log = quorum_log_in(tmp_path, quorum=QuorumVoters(1, voters))
    directory = unlocked_directory(tmp_path / "elsewhere" if is_elsewhere else tmp_path, directory_id)
    if fits:
        _check_directory(quorum_log, [directory])
    else:
        with pytest.raises(InvalidQuorum, match=r"directory\.id is not that of the voter"):
            _check_directory(quorum_log, [directory])


@pytest.mark.parametrize(
    ("known", "unknown", "had_clean_shutdown", "is_lost"),
    [
        (2, 0, True, False),
        (0, 0, True, False),
        (2, 1, True, True),
        (2, 1, False, False),
        (1, 1, False, False),
        (1, 2, False, True),
        (0, 1, False, True),
    ],
)
def test_partitions_that_the_metadata_lacks_show_that_it_is_lost(
    known: int, unknown: int, had_clean_shutdown: bool, is_lost: bool, tmp_path: Path
) -> None:
    """A crash may leave partitions of a topic that was just deleted."""

    def write_replica(name: str, topic_id: bytes, suffix: str = "") -> None:
        path = tmp_path / f"{name}-0{suffix}"
        path.mkdir()
        write_topic_id(str(path), topic_id)

    for number in range(known):
        write_replica(f"known{number}", TOPIC_ID)
    for number in range(unknown):
        write_replica(f"unknown{number}", OTHER_ID)
    write_replica("deleted", OTHER_ID, f".{'0' * 32}-delete")
    directory = unlocked_directory(tmp_path, had_clean_shutdown=had_clean_shutdown)
    assert len(directory.replicas()) == known + unknown + 1
    quorum_log = quorum_log_in(tmp_path, records=17)
    image = image_with(TopicRecord("renamed", TOPIC_ID))
    if is_lost:
        with pytest.raises(MetadataLost, match=f"ends at offset 17.*{counted(unknown, 'partition')} on"):
            _check_partitions(quorum_log, image, [directory])
    else:
        _check_partitions(quorum_log, image, [directory])


@pytest.mark.parametrize("damage", ["rubbish", "folder"])
def test_partition_whose_topic_id_cannot_be_read_is_known_by_its_name(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    path.mkdir()
    file = path / "partition.metadata"
    if damage == "folder":
        file.mkdir()
    else:
        file.write_bytes(b"\xff rubbish")
    directory = unlocked_directory(tmp_path, had_clean_shutdown=True)
    quorum_log = quorum_log_in(tmp_path, records=17)
    with pytest.raises(MetadataLost):
        _check_partitions(quorum_log, EMPTY_IMAGE, [directory])
    _check_partitions(quorum_log, image_with(TopicRecord("orders", TOPIC_ID)), [directory])
