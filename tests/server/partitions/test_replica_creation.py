"""New replicas, and those that a start finds: whose a directory is, what is missing, and how a creation fails."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.replication.isr import UNKNOWN_BROKER_EPOCH
from odradek.server.partitions import replicas_on_disk
from odradek.server.partitions.directory_choice import DirectoryChoice
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.partitions.online_directories import open_directories
from odradek.server.partitions.pending_partitions import PendingPartitions
from odradek.server.partitions.replica_creation import ReplicaCreation
from odradek.server.partitions.replica_opening import IsrRules, ReplicaOpening
from odradek.server.partitions.replicas_on_disk import (
    MOST_NAMED_RANGES,
    gone_replicas,
    is_ours,
    rename_stray,
    report_opening,
)
from odradek.server.partitions.topic_settings import SettingsByTopic
from odradek.server.runtime.node import Node
from odradek.storage.directory import LogDirectory, ReplicaDirectory
from odradek.storage.files.clean_replicas import CleanReplica
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.files.partition_metadata import read_topic_id, write_topic_id
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.storage.segments.damage import FILE_NAME, DamagedRange

from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, Hosted, batch
from tests.server.harness.images import broker_record, cache_of, image_with, topic_records
from tests.server.harness.log_directories import formatted_directory
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_lines import NotedLines
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.noted_reports import NotedReports
from tests.server.harness.set_clock import SetClock

OWN, OTHER = 0, 2
OWN_DIRECTORY = bytes(15) + b"\x07"
OTHER_ID = bytes(byte ^ 0xFF for byte in TOPIC_ID)


def image_of(*replicas: int, count: int = 1, directory: bytes = OWN_DIRECTORY) -> MetadataImage:
    return image_with(*topic_records(TOPIC, *[replicas] * count, topic_id=TOPIC_ID, directory=directory))


@pytest.fixture
def directory(tmp_path: Path) -> Any:
    opened = formatted_directory(tmp_path, OWN_DIRECTORY)
    yield opened
    opened.close()


def replica_in(directory: LogDirectory, topic_id: bytes | None = TOPIC_ID, *, index: int = 0) -> ReplicaDirectory:
    path = Path(directory.path, f"{TOPIC}-{index}")
    path.mkdir()
    if topic_id is not None:
        write_topic_id(str(path), topic_id)
    return ReplicaDirectory(TOPIC, index, str(path), "")


# ---- whose a directory is


@pytest.mark.parametrize(
    ("image", "topic_id", "is_own"),
    [
        (image_of(OWN, OTHER), TOPIC_ID, True),
        (image_of(OTHER), TOPIC_ID, False),
        (image_of(OWN, count=0), TOPIC_ID, False),
        (EMPTY_IMAGE, TOPIC_ID, False),
        (image_of(OWN), OTHER_ID, False),
    ],
)
def test_directory_is_ours_when_the_metadata_has_the_replica_here_with_its_topic_id(
    image: MetadataImage, topic_id: bytes, is_own: bool, directory: LogDirectory
) -> None:
    assert is_ours(directory, replica_in(directory, topic_id), image, OWN) == is_own


@pytest.mark.parametrize(("noted", "is_own"), [(TOPIC_ID, True), (OTHER_ID, False)])
def test_note_of_the_last_stop_saves_the_read_of_the_file_unless_it_is_of_another_topic(
    noted: bytes, is_own: bool, directory: LogDirectory
) -> None:
    replica = replica_in(directory, OTHER_ID)
    assert is_ours(directory, replica, image_of(OWN), OWN, CleanReplica(noted, 0, True)) == is_own


@pytest.mark.parametrize("damage", ["missing", "empty", "no text", "one bit", "folder"])
def test_file_with_a_damaged_topic_id_is_written_again(
    damage: str, directory: LogDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    flipped = bytes([TOPIC_ID[0] ^ 1, *TOPIC_ID[1:]])
    replica = replica_in(directory, None if damage in ("missing", "folder") else flipped)
    path = Path(replica.path, "partition.metadata")
    if damage == "folder":
        path.mkdir()
    elif damage in ("empty", "no text"):
        path.write_bytes(b"" if damage == "empty" else b"\xff\xfe rubbish")
    assert is_ours(directory, replica, image_of(OWN), OWN)
    assert read_topic_id(replica.path) == TOPIC_ID
    assert "rewritten with the topic id" in caplog.text


def test_file_that_cannot_be_read_fails_with_its_directory(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> bytes:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(replicas_on_disk, "read_if_exists", fail)
    with pytest.raises(LogDirectoryFailure, match=r"partition\.metadata") as failure:
        is_ours(directory, replica_in(directory), image_of(OWN), OWN)
    assert failure.value.directory == directory.path


# ---- replicas that are missing


@pytest.mark.parametrize(
    ("offset", "there", "image", "is_gone"),
    [
        (5, False, image_of(OWN, OTHER), True),
        (0, False, image_of(OWN, OTHER), False),
        (5, True, image_of(OWN, OTHER), False),
        (5, False, image_of(OTHER), False),
        (5, False, image_of(OWN, count=0), False),
        (5, False, EMPTY_IMAGE, False),
        (5, False, image_of(OWN, directory=bytes(15) + b"\x09"), False),
    ],
)
def test_replica_with_records_by_the_checkpoint_is_gone_when_it_belongs_here_and_is_not_there(
    offset: int, there: bool, image: MetadataImage, is_gone: bool, directory: LogDirectory,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    directory.checkpoints.high_watermarks[TOPIC, 0] = offset
    replicas = [replica_in(directory)] if there else []
    assert gone_replicas(directory, replicas, image, OWN) == ([(TOPIC, 0)] if is_gone else [])
    assert ("records up to offset 5 are lost" in caplog.text) == is_gone


def test_stray_directory_is_renamed_and_keeps_its_files(directory: LogDirectory) -> None:
    replica = replica_in(directory)
    rename_stray(directory, replica)
    [stray] = Path(directory.path).glob("*-stray")
    assert read_topic_id(str(stray)) == TOPIC_ID
    assert not Path(replica.path).exists()
    with pytest.raises(LogDirectoryFailure, match="renaming"):
        rename_stray(directory, replica)


# ---- what an opening reports


def test_opening_reports_its_notes_cuts_and_damage_and_saves_the_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = Hosted(tmp_path).log
    log.opening_notes = ("an index was rebuilt",)
    log.recovered_bytes = 17
    for number in range(MOST_NAMED_RANGES + 2):
        log.damage.add(DamagedRange(f"{0:020}.log", number * 10, 10, number * 2, number * 2 + 1, "rot"))
    report_opening(log)
    lines = [record.getMessage() for record in caplog.records]
    assert "an index was rebuilt" in lines
    assert any("17 bytes after the last complete batch" in line for line in lines)
    assert sum("is damaged" in line for line in lines) == MOST_NAMED_RANGES
    assert lines[-1].endswith("2 more damaged ranges")
    assert any("offsets 2 to 2" in line and "10 bytes at position 10" in line for line in lines)
    assert list(Path(log.path).glob("*damage*"))


def test_sound_log_is_opened_without_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    report_opening(Hosted(tmp_path).log)
    assert not caplog.records


def test_list_of_damage_that_cannot_be_saved_is_only_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = Hosted(tmp_path).log
    log.damage.add(DamagedRange(f"{0:020}.log", 0, 10, 0, 1, "rot"))
    Path(log.path, FILE_NAME).mkdir()
    report_opening(log)
    assert f"{TOPIC}-0: the list of damaged ranges could not be saved" in caplog.text


# ---- directories of a broker


@pytest.mark.parametrize(("files", "opens"), [((), ["a", "b"]), (("a",), ["b"]), (("a", "b"), [])])
def test_directories_that_cannot_be_opened_are_left_out_while_another_can(
    files: tuple[str, ...], opens: list[str], tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).write_bytes(b"no directory")
    opened: list[LogDirectory] = []
    paths = [str(tmp_path / name) for name in ("a", "b")]
    if opens:
        open_directories(paths, opened)
    else:
        with pytest.raises(LogDirectoryFailure) as failure:
            open_directories(paths, opened)
        assert failure.value.directory == paths[0], "the first one"
    assert [Path(one.path).name for one in opened] == opens
    for one in opened:
        one.close()


# ---- rules of leaders


@pytest.mark.parametrize(
    ("broker_id", "is_active", "epoch", "may"),
    [
        (OTHER, True, 5, True),
        (OTHER, True, UNKNOWN_BROKER_EPOCH, True),
        (OTHER, True, 4, False),
        (OTHER, False, 5, False),
        (9, True, 5, False),
    ],
)
def test_registered_process_of_an_active_broker_may_be_in_sync(
    broker_id: int, is_active: bool, epoch: int, may: bool
) -> None:
    registered = image_with(broker_record(OTHER, epoch=5, fenced=not is_active))
    rules = IsrRules(cache_of(registered), 30_000, lambda *_: None)
    assert rules.may_join(broker_id, epoch) == may


# ---- opening


class SearchedDirectory(LogDirectory):
    """Notes the searches for logs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.searches: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def find_log(self, *place: Any, **known: Any) -> Any:
        self.searches.append((place, known))


class Opening:
    """The opening of replicas, with settings of the test."""

    def __init__(self) -> None:
        self.partitions = NotedPartitions()
        node = node_of({"node.id": str(OWN), "log.retention.ms": "77"}, clock=SetClock(NOW_MS))
        rules = IsrRules(node.metadata, 20_000, lambda *_: None)
        self.opening = ReplicaOpening(node, SettingsByTopic(node.config), self.partitions, rules, lambda *_: None)


@pytest.mark.parametrize(
    ("start", "noted", "high_watermark"),
    [(0, 0, 0), (0, 3, 3), (0, 5, 5), (0, 9, 5), (2, 1, 2), (2, 4, 4), (5, 0, 5)],
)
def test_high_watermark_of_an_opened_log_is_the_noted_one_within_the_log(
    start: int, noted: int, high_watermark: int, directory: LogDirectory
) -> None:
    harness = Opening()
    log = Log.open(Path(directory.path, f"{TOPIC}-0"), TOPIC, 0, LogConfig(), now_ms=NOW_MS)
    log.append(batch(5), None, NOW_MS)
    log.advance_log_start_offset(start)
    hosted = harness.opening.host(directory, image_of(OWN, OTHER), log, noted)
    assert list(harness.partitions) == [hosted] and (hosted.topic_id, hosted.directory) == (TOPIC_ID, directory)
    assert (hosted.high_watermark, hosted.log_end_offset, hosted.is_leader) == (high_watermark, 5, False)
    assert hosted.log.config.retention_ms == 77, "that of the newest image"
    assert (hosted.role.local_id, hosted.role.lag_time_max_ms) == (OWN, 20_000)


@pytest.mark.parametrize(
    ("replicas", "is_replicated"), [((OWN,), False), ((OWN, OTHER), True), ((OWN, OTHER, 3), True)]
)
def test_log_is_opened_with_what_is_known_of_its_partition(
    replicas: tuple[int, ...], is_replicated: bool, tmp_path: Path
) -> None:
    """The torn tail of a log without other replicas is all that there is of it."""
    directory = SearchedDirectory(tmp_path)
    config, noted = LogConfig(), CleanReplica(TOPIC_ID, 1, True)
    Opening().opening.read(directory, image_of(*replicas), TOPIC, 0, config, noted)
    ((place, known),) = directory.searches
    assert place == (TOPIC, 0, config) and 0 <= known.pop("jitter") < 1
    assert known == {"now_ms": NOW_MS, "is_replicated": is_replicated, "noted": noted}


def test_high_watermark_of_a_replica_without_a_note_is_the_start_of_its_log(directory: LogDirectory) -> None:
    """The records may not be committed."""
    written = Log.open(Path(directory.path, f"{TOPIC}-0"), TOPIC, 0, LogConfig(), now_ms=NOW_MS)
    written.append(batch(5), None, NOW_MS)
    written.close(NOW_MS)
    hosted = Opening().opening.open(directory, image_of(OWN, OTHER), TOPIC, 0)
    assert (hosted.log_start_offset, hosted.high_watermark, hosted.log_end_offset) == (0, 0, 5)


# ---- creation


class FailingOpening(ReplicaOpening):
    """Fails with `failure` if there is one: when the replica is among the partitions if it `hosts`, or before."""

    failure: Exception | None = None
    hosts = True

    def open(self, directory: LogDirectory, image: MetadataImage, topic: str, index: int) -> HostedPartition:
        hosted = super().open(directory, image, topic, index) if self.failure is None or self.hosts else None
        if self.failure is not None:
            raise self.failure
        assert hosted is not None
        return hosted


class NotedPending(PendingPartitions):
    """Notes the partitions that were made and those that are to be tried again, and tries none."""

    def __init__(self, node: Node) -> None:
        super().__init__(OWN, node.clock, node.metadata, node.lines)
        self.noted_made: list[tuple[str, int]] = []
        self.noted: list[tuple[Any, ...]] = []

    def made(self, topic: str, index: int) -> None:
        self.noted_made.append((topic, index))

    def add(self, *added: Any) -> None:
        self.noted.append(added)


class Creating:
    """A broker that makes a replica. `failure` is what the opening of its log raises."""

    def __init__(self, directory: LogDirectory | None, *, failure: Exception | None = None, hosts: bool = True) -> None:
        self.lines = NotedLines()
        node = node_of({"node.id": str(OWN)}, clock=SetClock(NOW_MS), lines=self.lines)
        self.partitions = NotedPartitions(directories=[] if directory is None else [directory])
        self.partitions.pending = self.pending = NotedPending(node)
        self.reports = NotedReports()
        rules = IsrRules(node.metadata, 20_000, lambda *_: None)
        opening = FailingOpening(node, SettingsByTopic(node.config), self.partitions, rules, lambda *_: None)
        opening.failure, opening.hosts = failure, hosts
        self.creation = ReplicaCreation(
            OWN,
            node.clock,
            node.lines,
            self.partitions,
            opening,
            DirectoryChoice(OWN, node.config, self.partitions),
            self.reports,
        )

    def create(self, registered: bytes = OWN_DIRECTORY) -> Any:
        image = image_of(OWN, directory=registered)
        return self.creation.create(image, TOPIC, TOPIC_ID, 0, image.topics.by_name[TOPIC].partitions[0])


@pytest.mark.parametrize(("registered", "is_reported"), [(OWN_DIRECTORY, False), (bytes(16), True)])
def test_new_replica_has_its_topic_id_and_its_directory_is_reported_where_the_metadata_has_another(
    registered: bytes, is_reported: bool, directory: LogDirectory
) -> None:
    harness = Creating(directory)
    hosted = harness.create(registered)
    assert read_topic_id(hosted.log.path) == TOPIC_ID
    assert harness.pending.noted_made == [(TOPIC, 0)]
    assert harness.reports.noted == ([hosted] if is_reported else [])
    assert harness.partitions.failures == harness.pending.noted == []


def test_replica_is_not_made_while_no_directory_is_online() -> None:
    harness = Creating(None)
    assert harness.create() is None
    assert harness.lines.words == [f"no log directory is online for {TOPIC}-0"]


@pytest.mark.parametrize("hosts", [True, False])
@pytest.mark.parametrize(
    ("error", "waits"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EMFILE, True), (errno.EIO, False)]
)
def test_creation_without_room_or_descriptors_waits_and_one_on_a_broken_disk_takes_it_offline(
    error: int, waits: bool, hosts: bool, directory: LogDirectory
) -> None:
    cause = OSError(error, "failed")
    failure = LogDirectoryFailure(directory.path, "opening", cause)
    harness = Creating(directory, failure=failure, hosts=hosts)
    assert harness.create() is None
    assert len(harness.partitions) == 0, "it is not among the partitions"
    assert harness.partitions.failures == ([] if waits else [failure])
    assert [(key, found) for key, found, _, _ in harness.pending.noted] == ([((TOPIC, 0), failure)] if waits else [])
    for _, _, made, new_path in harness.pending.noted:
        assert (made is not None) == hosts
        assert new_path == f"{directory.path}/{TOPIC}-0"
    assert harness.pending.noted_made == harness.reports.noted == []


def test_creation_that_fails_keeps_the_files_that_were_there(directory: LogDirectory) -> None:
    replica_in(directory)
    harness = Creating(directory, failure=OSError(errno.ENOSPC, "full"), hosts=False)
    assert harness.create() is None
    [(_, failure, _, new_path)] = harness.pending.noted
    assert new_path is None
    assert isinstance(failure, LogDirectoryFailure)
    assert str(failure).startswith(f"{directory.path}")
