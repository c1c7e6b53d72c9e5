"""The directory of the metadata log on a disk: its damage, what a survey and a repair find in it, and its formatting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.configs import InvalidConfig
from odradek.metadata.image import EMPTY_IMAGE
from odradek.protocol.internal.cluster_metadata import (
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from odradek.protocol.internal.control_records import KRaftVersionRecord, LeaderChangeMessage, VotersRecord, VotersVoter
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.control import ControlRecord, ControlType
from odradek.protocol.uuids import uuid_from_text
from odradek.replication.quorum.log import SnapshotId as RaftEnd
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller import metadata_batches, metadata_survey
from odradek.server.controller import metadata_log as snapshots_module
from odradek.server.controller.flushed_end import FlushedEnd
from odradek.server.controller.formatting import (
    InitialVoter,
    format_directories,
    read_initial_voters,
    standalone_voters,
)
from odradek.server.controller.metadata_batches import BatchTooLarge, encode_in_batches, encode_records
from odradek.server.controller.metadata_log import DIRECTORY_NAME, QuorumLog
from odradek.server.controller.metadata_snapshots import (
    SnapshotId,
    list_snapshots,
    read_records,
    write_image_snapshot,
)
from odradek.server.controller.metadata_survey import (
    loss,
    named,
    newer_leader_changes,
    survey,
)
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.controller.repair_decisions import cut_metadata, forget_votes, write_properties
from odradek.server.controller.repairing import findings, metadata_end
from odradek.storage.files.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from odradek.storage.files.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from odradek.storage.log.loading import DamagedLog
from odradek.storage.segments.damage import DamagedRange

EPOCH = 4
DIRECTORY_ID = bytes(range(16))


def topic(name: str) -> TopicRecord:
    return TopicRecord(name, name.encode().ljust(16, b"."))


def voter(node_id: int, directory_id: bytes = DIRECTORY_ID) -> VotersVoter:
    return VotersVoter(voter_id=node_id, voter_directory_id=directory_id)


class Directory:
    """A log directory of node 0 with a metadata log: its leader's records, and three topics at offsets 3, 4 and 5."""

    def __init__(self, path: Path, *, voters: Sequence[VotersVoter] = (), segment_bytes: int = 1 << 20) -> None:
        self.path = path / "data"
        self.metadata = self.path / DIRECTORY_NAME
        self.metadata.mkdir(parents=True)
        write_meta_properties(str(self.path), MetaProperties("cluster", 0, DIRECTORY_ID))
        self.log = QuorumLog(self.metadata, BrokerConfig({}), 1)
        controls = [
            ControlRecord(ControlType.LEADER_CHANGE, LeaderChangeMessage(version=0, leader_id=0)),
            ControlRecord(ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=1)),
            ControlRecord(ControlType.KRAFT_VOTERS, VotersRecord(version=0, voters=list(voters) or [voter(0)])),
        ]
        self.log.append_control(controls, EPOCH, 1)
        for name in "abc":
            self.append(topic(name))

    def append(self, *records: Any) -> None:
        self.log.append(records, EPOCH, 1, 30, True)

    def close(self) -> None:
        self.log.close(1)

    def segment(self) -> Path:
        (found,) = self.metadata.glob("*.log")
        return found

    def break_batch(self, offset: int) -> None:
        """Changes a byte of the batch with the offset."""
        data = bytearray(self.segment().read_bytes())
        for position, header in iter_headers(bytes(data)):
            if header.base_offset == offset:
                data[position + header.size - 1] ^= 1
        self.segment().write_bytes(bytes(data))

    def words(self) -> list[tuple[str, str | None]]:
        return [(one.words.replace(str(self.path), ""), one.decision) for one in findings(self.path)]


# ---- surveys


def test_survey_finds_voters_topics_and_records(tmp_path: Path) -> None:
    found = Directory(tmp_path, voters=[voter(0), voter(2)])
    found.append(NoOpRecord(), topic("d"), RemoveTopicRecord(topic("a").topic_id))
    found.close()
    seen = survey(found.metadata)
    assert seen.voters == {0, 2} and seen.quorum.kraft_version == 1
    assert seen.record_offsets == [3, 4, 5, 6, 7, 8]
    assert [seen.records_from(offset) for offset in (0, 3, 4, 8, 9)] == [6, 6, 5, 1, 0]
    assert [seen.topics_from(offset) for offset in (0, 4, 5, 7, 8)] == [
        ["b", "c", "d"],
        ["b", "c", "d"],
        ["c", "d"],
        ["d"],
        [],
    ]


def test_survey_goes_on_after_damage_and_begins_with_the_newest_snapshot(tmp_path: Path) -> None:
    found = Directory(tmp_path)
    found.close()
    found.break_batch(4)
    assert survey(found.metadata).record_offsets == [3, 5]
    found.break_batch(0)
    assert survey(found.metadata).voters == set()
    for end, node in ((1, 7), (2, 8)):
        image = EMPTY_IMAGE._replace(offset=end - 1, epoch=EPOCH)
        write_image_snapshot(found.metadata, image, QuorumVoters(1, [voter(node)]), 1)
    assert survey(found.metadata).voters == {8}


def test_survey_counts_no_batch_that_lies_in_the_segment_of_later_offsets(tmp_path: Path) -> None:
    found = Directory(tmp_path)
    change = LeaderChangeMessage(version=1, leader_id=0)
    found.log.append_control([ControlRecord(ControlType.LEADER_CHANGE, change)], EPOCH, 1)
    found.log.log.roll(1)
    found.append(topic("d"))
    found.close()
    first, second = sorted(found.metadata.glob("*.log"))
    assert survey(found.metadata).record_offsets == [3, 4, 5, 7]
    data, own = first.read_bytes(), second.read_bytes()
    for offset in (3, 6):
        [lost] = [data[at : at + header.size] for at, header in iter_headers(data) if header.base_offset == offset]
        second.write_bytes(lost + own)
        assert survey(found.metadata).record_offsets == [3, 4, 5, 7]
        assert newer_leader_changes(found.metadata) == [6]


@pytest.mark.parametrize(("version", "offset"), [(0, None), (1, 6)])
def test_leader_changes_of_a_newer_version_are_found_above_the_oldest_snapshot(
    version: int, offset: int | None, tmp_path: Path
) -> None:
    found = Directory(tmp_path)
    change = LeaderChangeMessage(version=version, leader_id=0)
    found.log.append_control([ControlRecord(ControlType.LEADER_CHANGE, change)], EPOCH, 1)
    found.close()
    assert newer_leader_changes(found.metadata) == ([] if offset is None else [offset])
    write_image_snapshot(found.metadata, EMPTY_IMAGE._replace(offset=5, epoch=EPOCH), QuorumVoters(), 1)
    assert newer_leader_changes(found.metadata) == ([] if offset is None else [offset])
    (found.metadata / SnapshotId(6, EPOCH).file_name).unlink()
    write_image_snapshot(found.metadata, EMPTY_IMAGE._replace(offset=6, epoch=EPOCH), QuorumVoters(), 1)
    assert newer_leader_changes(found.metadata) == []


@pytest.mark.parametrize("version", [0, 1])
def test_leader_change_at_the_first_offset_is_found(version: int, tmp_path: Path) -> None:
    log = QuorumLog(tmp_path / "log", BrokerConfig({}), 1)
    change = LeaderChangeMessage(version=version, leader_id=0)
    log.append_control([ControlRecord(ControlType.LEADER_CHANGE, change)], EPOCH, 1)
    log.close(1)
    assert newer_leader_changes(tmp_path / "log") == [0] * version


def damaged_log(*offsets: tuple[int, int]) -> DamagedLog:
    """Returns the damage of the ranges from the first to the next offset."""
    return DamagedLog("/d", [DamagedRange("a.log", 0, 1, first, end, "test") for first, end in offsets], 0)


def test_loss_is_described_with_its_records_and_topics(tmp_path: Path) -> None:
    found = Directory(tmp_path)
    found.close()
    found.break_batch(4)
    damaged = damaged_log((4, 5), (9, 11))
    assert loss(found.metadata, damaged) == (
        "3 damaged offsets, a cut there would lose 1 record after them, with 1 topic (c)"
    )
    assert loss(found.metadata, damaged_log((6, 5), (9, 11))).endswith("a cut there would lose 0 records after them")


@pytest.mark.parametrize(
    ("count", "words"),
    [(1, "a"), (5, "a, b, c, d, e"), (6, "a, b, c, d, e and 1 more"), (9, "a, b, c, d, e and 4 more")],
)
def test_names_are_shown_up_to_a_limit(count: int, words: str) -> None:
    assert metadata_survey.MOST_NAMES == 5
    assert named("abcdefghi"[:count]) == words


# ---- repairs


def test_sound_directory_has_no_finding(tmp_path: Path) -> None:
    found = Directory(tmp_path)
    found.close()
    assert found.words() == [] and metadata_end(found.metadata) is None
    assert cut_metadata(found.path).endswith("nothing to cut")


@pytest.mark.parametrize("recorded", [0, 1, 6])
def test_log_whose_segments_are_gone_ends_at_its_start(recorded: int, tmp_path: Path) -> None:
    metadata = tmp_path / DIRECTORY_NAME
    metadata.mkdir()
    if recorded:
        FlushedEnd(tmp_path).flushed(RaftEnd(recorded, EPOCH))
    end = metadata_end(metadata)
    if not recorded:
        assert end is None
        return
    assert end is not None and (end.file, end.position, end.offset) == (None, 0, 0)
    assert f"damaged at position 0, offset 0, the log ended at offset {recorded}" in end.lost
    assert f"{metadata}: ends at offset 0 now" in cut_metadata(tmp_path)
    assert metadata_end(metadata) is None and FlushedEnd(tmp_path).recorded == RaftEnd(0, 0)


@pytest.mark.parametrize(("offset", "records", "topics"), [(3, 2, "2 topics among them (b, c)"), (5, 0, None)])
def test_damaged_log_is_cut_at_its_damage(offset: int, records: int, topics: str | None, tmp_path: Path) -> None:
    found = Directory(tmp_path)
    found.close()
    found.break_batch(offset)
    ((words, decision),) = found.words()
    assert decision == "--cut-metadata"
    assert f"offset {offset}" in words and f"a cut there loses {records} readable records" in words
    assert (topics or "topics") in words if topics else "topics" not in words
    before = found.segment().read_bytes()
    done = cut_metadata(found.path)
    assert f"ends at offset {offset} now" in done
    kept = Path(done.rpartition(" kept as ")[2])
    assert (kept / found.segment().name).read_bytes() == before
    assert found.words() == []
    again = QuorumLog(found.metadata, BrokerConfig({}), 1)
    assert (again.end_offset, again.acknowledged) == (offset, None)
    assert FlushedEnd(found.path).recorded == RaftEnd(offset, 0)
    again.close(1)


def test_log_that_lacks_flushed_records_is_cut_at_its_end(tmp_path: Path) -> None:
    found = Directory(tmp_path)
    found.close()
    FlushedEnd(found.path).reset(RaftEnd(9, EPOCH))
    ((words, decision),) = found.words()
    assert decision == "--cut-metadata" and "the log ended at offset 9" in words and "offset 6" in words
    FlushedEnd(found.path).reset(RaftEnd(6, EPOCH))
    assert found.words() == []
    FlushedEnd(found.path).reset(RaftEnd(7, EPOCH))
    assert "ends at offset 6 now" in cut_metadata(found.path)
    assert found.words() == []


def test_damage_below_the_newest_snapshot_loses_nothing(tmp_path: Path) -> None:
    found = Directory(tmp_path)
    found.close()
    found.break_batch(3)
    write_image_snapshot(found.metadata, EMPTY_IMAGE._replace(offset=3, epoch=EPOCH), QuorumVoters(1, [voter(0)]), 1)
    assert metadata_end(found.metadata) is None
    found.break_batch(5)
    end = metadata_end(found.metadata)
    assert end is not None and end.offset == 5


def test_directory_of_another_voter_is_found(tmp_path: Path) -> None:
    found = Directory(tmp_path, voters=[voter(0, bytes(15) + b"\7"), voter(2)])
    found.close()
    ((words, decision),) = found.words()
    assert decision == "--write-meta-properties" and "directory.id is not" in words
    done = write_properties(found.path, None, None)
    assert "written for node 0 of cluster cluster; the old file is kept as" in done
    properties = read_meta_properties(str(found.path))
    assert properties is not None and properties.directory_id == bytes(15) + b"\7"
    assert found.words() == []


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "written"),
    [
        (None, None, None),
        ("c", None, ("c", 0)),
        ("c", 3, ("c", 3)),
        (None, 3, None),
    ],
)
def test_lost_properties_are_written_from_what_is_known(
    cluster_id: str | None, node_id: int | None, written: tuple[str, int] | None, tmp_path: Path
) -> None:
    found = Directory(tmp_path)
    found.close()
    (found.path / "meta.properties").write_bytes(b"\xff\xfe")
    words, decision = found.words()[0]
    assert words.startswith("/meta.properties: ") and decision == "--write-meta-properties"
    if written is None:
        with pytest.raises(ValueError, match="--cluster-id ID --node-id N"):
            write_properties(found.path, cluster_id, node_id)
        return
    write_properties(found.path, cluster_id, node_id)
    properties = read_meta_properties(str(found.path))
    assert properties is not None and (properties.cluster_id, properties.node_id) == written
    assert (properties.directory_id == DIRECTORY_ID) == (node_id is None), "that of the voter"


def test_directory_without_properties_is_not_formatted(tmp_path: Path) -> None:
    ((words, decision),) = [(one.words, one.decision) for one in findings(tmp_path)]
    assert "missing; the directory is not formatted" in words and decision is None


def test_votes_are_forgotten_with_the_voters_of_the_log(tmp_path: Path) -> None:
    found = Directory(tmp_path, voters=[voter(2), voter(0)])
    found.close()
    assert "created anew" in forget_votes(found.path) and read_quorum_state(found.metadata) == QuorumState()
    write_quorum_state(found.metadata, QuorumState(2, 9, 2), 1, [])
    (found.metadata / "quorum-state").write_bytes(b"x")
    (found.path / "odradek-quorum-state").unlink()
    assert found.words()[-1][1] == "--forget-votes"
    assert "the old file is kept as" in forget_votes(found.path)
    assert read_quorum_state(found.metadata) == QuorumState() and found.words() == []


def test_damaged_snapshot_and_partition_are_found(tmp_path: Path) -> None:
    found = Directory(tmp_path)
    found.close()
    image = EMPTY_IMAGE._replace(offset=3, epoch=EPOCH)
    path = found.metadata / write_image_snapshot(found.metadata, image, QuorumVoters(), 1).file_name
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-5])
    (found.path / "t-0").mkdir()
    (found.path / "t-0" / "00000000000000000000.log").write_bytes(b"\0" * 70)
    (found.path / "u-0").mkdir()
    (found.path / "u-0" / "partition.metadata").write_bytes(b"x")
    words = [one for one, decision in found.words() if decision is None]
    assert len(words) == len(found.words()) == 4
    assert f"{path.name}: damaged (" in words[0]
    assert "/t-0/partition.metadata: missing or empty" in words[1]
    assert "an incomplete write or damage" in words[2] and "70 bytes from position 0 on, offset 0" in words[2]
    assert "/u-0/partition.metadata" in words[3] and "rewrites it at its next start" in words[3]


# ---- batches


def test_records_that_need_not_be_committed_together_are_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [topic(f"t{number:03}") for number in range(7)]
    monkeypatch.setattr(metadata_batches, "RECORDS_PER_BATCH", 3)

    def counts() -> list[tuple[int, int]]:
        found = [next(iter(iter_headers(one)))[1] for one in encode_in_batches(records, 10, EPOCH, 5, 30)]
        assert {(one.leader_epoch, one.max_timestamp) for one in found} == {(EPOCH, 5)}
        return [(one.base_offset, one.record_count) for one in found]

    assert counts() == [(10, 3), (13, 3), (16, 1)]
    assert list(encode_in_batches([], 10, EPOCH, 5, 30)) == []
    size = len(encode_records(records[:2], 10, EPOCH, 5, 30))
    monkeypatch.setattr(metadata_batches, "MAX_BATCH_BYTES", size + 60)
    monkeypatch.setattr(snapshots_module, "MAX_BATCH_BYTES", size + 60)
    assert counts() == [(10, 2), (12, 2), (14, 2), (16, 1)]
    monkeypatch.setattr(metadata_batches, "MAX_BATCH_BYTES", 70)
    monkeypatch.setattr(snapshots_module, "MAX_BATCH_BYTES", 70)
    assert counts() == [(10 + number, 1) for number in range(7)], "a record alone may be larger"


def test_records_that_must_be_committed_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(encode_records([topic("a"), topic("b")], 0, EPOCH, 5, 30))
    monkeypatch.setattr(metadata_batches, "MAX_BATCH_BYTES", size)
    monkeypatch.setattr(snapshots_module, "MAX_BATCH_BYTES", size)
    assert len(encode_records([topic("a"), topic("b")], 0, EPOCH, 5, 30)) == size
    monkeypatch.setattr(metadata_batches, "MAX_BATCH_BYTES", size - 1)
    monkeypatch.setattr(snapshots_module, "MAX_BATCH_BYTES", size - 1)
    with pytest.raises(BatchTooLarge, match=f"of {size} bytes in the metadata log; the limit is {size - 1} bytes"):
        encode_records([topic("a"), topic("b")], 0, EPOCH, 5, 30)


# ---- formatting


def config(path: Path, **properties: str) -> BrokerConfig:
    return BrokerConfig(
        {"log.dirs": str(path), "node.id": "0", **{k.replace("_", "."): v for k, v in properties.items()}}
    )


CONTROLLER = {
    "process_roles": "broker,controller",
    "controller_listener_names": "C",
    "listener_security_protocol_map": "C:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("listeners", "host", "port"),
    [("PLAINTEXT://:1,C://:2", "localhost", 2), ("PLAINTEXT://:1,C://h:9", "h", 9)],
)
def test_single_node_is_its_own_first_voter(listeners: str, host: str, port: int, tmp_path: Path) -> None:
    made = config(tmp_path, **CONTROLLER, listeners=listeners)
    (one,) = standalone_voters(made)
    assert (one.id, one.host, one.port) == (0, host, port) and len(one.directory_id) == 16
    format_directories(made, "c", initial_voters=[one])
    properties = read_meta_properties(str(tmp_path))
    assert properties is not None and (properties.node_id, properties.directory_id) == (0, one.directory_id)
    assert survey(tmp_path / DIRECTORY_NAME).voters == {0}
    assert list_snapshots(tmp_path / DIRECTORY_NAME) == [SnapshotId(0, 0)]


def test_single_broker_without_a_controller_listener_is_its_own_first_voter(tmp_path: Path) -> None:
    format_directories(config(tmp_path), "c")
    (found,) = survey(tmp_path / DIRECTORY_NAME).quorum.voters
    assert [(one.name, one.host, one.port) for one in found.endpoints] == [("CONTROLLER", "localhost", 9093)]
    feature = found.kraft_version_feature
    assert (feature.min_supported_version, feature.max_supported_version) == (0, 1)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("0@a:1:JEXY6aqzQY-32P5TStzaFg", None),
        ("2147483647@a:65535:JEXY6aqzQY-32P5TStzaFg", None),
        ("2147483648@a:1:JEXY6aqzQY-32P5TStzaFg", "an id is less than"),
        ("11111111111@a:1:JEXY6aqzQY-32P5TStzaFg", "an id is less than"),
        ("1@a:0:JEXY6aqzQY-32P5TStzaFg", "a port is a number"),
        ("1@a:65536:JEXY6aqzQY-32P5TStzaFg", "a port is a number"),
        ("1@a:111111:JEXY6aqzQY-32P5TStzaFg", "a port is a number"),
        ("0000000001@a:00001:JEXY6aqzQY-32P5TStzaFg", None),
        ("00000000001@a:1:JEXY6aqzQY-32P5TStzaFg", "an id is less than"),
        ("1@a:000001:JEXY6aqzQY-32P5TStzaFg", "a port is a number"),
        ("1@a:1:JEXY6aqzQY-32P5TStzaFg,1@b:1:MvDxzVmcRsaTz33bUuRU6A", "unique id"),
    ],
)
def test_first_voters_are_within_bounds(text: str, error: str | None) -> None:
    if error is None:
        (found,) = read_initial_voters(text)
        node_id, _, rest = text.partition("@")
        assert found == InitialVoter(
            int(node_id), "a", int(rest.split(":")[1]), uuid_from_text("JEXY6aqzQY-32P5TStzaFg")
        )
    else:
        with pytest.raises(InvalidConfig, match=error):
            read_initial_voters(text)


@pytest.mark.parametrize("level", [10, 11])
def test_first_users_need_a_metadata_version_that_has_them(level: int, tmp_path: Path) -> None:
    users = [UserScramCredentialRecord("alice", 1, b"s", b"k", b"v", 4096)]
    made = config(tmp_path)
    if level < 11:
        with pytest.raises(InvalidConfig, match="SCRAM is only supported"):
            format_directories(made, "c", users=users, features={"metadata.version": level})
        assert list(tmp_path.iterdir()) == []
        return
    format_directories(made, "c", users=users, features={"metadata.version": level})
    records: list[Any] = read_records(tmp_path / "bootstrap.checkpoint")
    assert (records[0].name, records[0].feature_level) == ("metadata.version", level)
    assert records[-1].name == "alice"
    names = [one.name for one in records[1:-1]]
    assert names == sorted(names) and "kraft.version" not in names


def test_first_records_have_the_time_of_the_formatting(tmp_path: Path) -> None:
    before_ms = time.time() * 1000
    format_directories(config(tmp_path), "c")
    after_ms = time.time() * 1000
    paths = [tmp_path / "bootstrap.checkpoint", tmp_path / DIRECTORY_NAME / SnapshotId(0, 0).file_name]
    for path in paths:
        for _, header in iter_headers(path.read_bytes()):
            assert int(before_ms) <= header.max_timestamp <= after_ms
            assert header.leader_epoch == 0


def test_cluster_id_is_drawn_or_that_of_the_directories(tmp_path: Path) -> None:
    first = format_directories(config(tmp_path / "a"))
    assert len(first) == 22 and first != format_directories(config(tmp_path / "b"))
    both = BrokerConfig({"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'c'}", "node.id": "0"})
    assert format_directories(both, ignore_formatted=True) == first
    mixed = BrokerConfig({"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}", "node.id": "0"})
    with pytest.raises(InvalidConfig, match="the directories belong to cluster"):
        format_directories(mixed, ignore_formatted=True)
