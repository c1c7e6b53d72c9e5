"""Log directories: locks, `meta.properties`, checkpoints, and replicas in every state."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from odradek.protocol.uuids import uuid_from_text
from odradek.storage.directory import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    LogDirectory,
    checkpoints_of,
    parse_replica_directory,
    replica_directory_name,
)
from odradek.storage.files.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    decode_offsets,
    find_offsets,
    write_offsets,
)
from odradek.storage.files.clean_replicas import CleanReplica
from odradek.storage.files.directory_lock import DirectoryInUse
from odradek.storage.files.meta_properties import (
    InvalidMetaProperties,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from odradek.storage.files.partition_metadata import CorruptPartitionMetadata, read_topic_id, write_topic_id
from odradek.storage.log.config import LogConfig

from tests.harness.patches import patch_for_this_thread
from tests.storage.formatted import format_directory

NOW = 1_700_000_000_000
DIRECTORY_ID = uuid_from_text("5I3mhVqkSGyYXlXPIvSLxA")


def open_log(directory, topic="t", partition=0, **options):
    return directory.open_log(topic, partition, LogConfig(), now_ms=NOW, **options)


def test_a_directory_in_use_is_refused_to_others_of_the_same_process(tmp_path):
    directory = LogDirectory.open(tmp_path / "d")
    with pytest.raises(DirectoryInUse):
        LogDirectory.open(tmp_path / "d")
    directory.close()
    LogDirectory.open(tmp_path / "d").close()


@pytest.mark.usefixtures("processes")
def test_the_lock_is_one_that_java_sees(tmp_path):
    directory = LogDirectory.open(tmp_path / "d")
    program = f"import fcntl; fcntl.lockf(open({str(tmp_path / 'd' / '.lock')!r}, 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "BlockingIOError" in done.stderr
    directory.close()
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_meta_properties_come_back_as_written(tmp_path):
    written = MetaProperties("HnGEf-RGTLqjDKXrEw7ChQ", 7, DIRECTORY_ID)
    write_meta_properties(str(tmp_path), written)
    assert read_meta_properties(str(tmp_path)) == written
    assert LogDirectory.open(tmp_path).directory_id == DIRECTORY_ID


def test_meta_properties_that_java_wrote_are_read(tmp_path):
    (tmp_path / "meta.properties").write_text(
        "#\n#Thu Nov 21 11:00:00 UTC 2024\nnode.id=1\nversion=1\ncluster.id=a\\=b\ndirectory.id=5I3mhVqkSGyYXlXPIvSLxA\n"
    )
    assert read_meta_properties(str(tmp_path)) == MetaProperties("a=b", 1, DIRECTORY_ID)


@pytest.mark.parametrize(
    ("content", "node_id"),
    [
        ("version=1\nnode.id=0\n", 0),
        ("version=0\nbroker.id=3\n", 3),
        ("broker.id=3\n", 3),
        ("version=1\nnode.id=4\nbroker.id=3\n", 4),
        ("! a comment\n version = 1 \n node.id = 5 \n", 5),
    ],
)
def test_node_id_of_meta_properties_may_have_its_former_name(tmp_path, content, node_id):
    (tmp_path / "meta.properties").write_text(f"{content}cluster.id=a\n")
    assert read_meta_properties(str(tmp_path)) == MetaProperties("a", node_id, None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("version=1\ncluster.id=a\n", "no node.id"),
        ("version=0\nbroker.id=x\ncluster.id=a\n", "invalid literal"),
        ("version=1\nnode.id=1\n", "no cluster.id"),
        ("version=2\nnode.id=1\ncluster.id=a\n", "version 2 is not known"),
        ("version=1\nnode.id=1\ncluster.id=a\ndirectory.id=x\n", "x"),
    ],
)
def test_invalid_meta_properties_are_named_in_the_error(tmp_path, content, words):
    (tmp_path / "meta.properties").write_text(content)
    with pytest.raises(InvalidMetaProperties, match=words):
        read_meta_properties(str(tmp_path))


@pytest.mark.parametrize(
    "content", ["", "version=2\n", "version=1\nnode.id=x\ncluster.id=a\n", "version=1\nnode.id=1\n"]
)
def test_meta_properties_that_cannot_be_are_refused(tmp_path, content):
    (tmp_path / "meta.properties").write_text(content)
    with pytest.raises(InvalidMetaProperties, match=r"meta\.properties"):
        read_meta_properties(str(tmp_path))


def test_checkpoints_come_back_as_written(tmp_path):
    offsets = {("orders", 0): 1234, ("a.b-c_d", 11): 0}
    write_offsets(str(tmp_path), RECOVERY_POINTS, offsets)
    assert find_offsets(str(tmp_path), RECOVERY_POINTS).offsets == offsets
    assert (tmp_path / RECOVERY_POINTS).read_text() == "0\n2\norders 0 1234\na.b-c_d 11 0\n"
    assert find_offsets(str(tmp_path), LOG_START_OFFSETS).offsets == {}


@pytest.mark.parametrize("content", ["1\n0\n", "0\n2\na 0 0\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n", "x\n0\n"])
def test_a_damaged_checkpoint_is_refused(content):
    with pytest.raises(CorruptCheckpoint):
        decode_offsets(content.encode())


def test_a_topic_id_comes_back_as_written(tmp_path):
    assert read_topic_id(str(tmp_path)) is None
    write_topic_id(str(tmp_path), DIRECTORY_ID)
    assert read_topic_id(str(tmp_path)) == DIRECTORY_ID
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: 5I3mhVqkSGyYXlXPIvSLxA"
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: short")
    with pytest.raises(CorruptPartitionMetadata):
        read_topic_id(str(tmp_path))


def test_the_names_of_replicas_directories_are_kafkas():
    assert parse_replica_directory("/d/my-topic.x-12")[:2] == ("my-topic.x", 12)
    assert parse_replica_directory("/d/t-0.0123456789abcdef-delete") == (
        "t",
        0,
        "/d/t-0.0123456789abcdef-delete",
        "-delete",
    )
    for name in ("lost+found", "t", "t-", "t-x", "t-0.x", "t-0-delete"):
        assert parse_replica_directory(f"/d/{name}") is None
    name = replica_directory_name("x" * 249, 0, DELETE_SUFFIX)
    assert len(name) == 255
    assert parse_replica_directory(name).suffix == DELETE_SUFFIX


def test_replicas_are_listed_and_the_metadata_log_is_not_one(tmp_path):
    directory = LogDirectory.open(tmp_path)
    for partition in range(3):
        open_log(directory, partition=partition)
    open_log(directory, "t", 7, path=directory.future_path("t", 7))
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "notes").mkdir()
    found = sorted((replica.topic, replica.partition, replica.suffix) for replica in directory.replicas())
    assert found == [("t", 0, ""), ("t", 1, ""), ("t", 2, ""), ("t", 7, "-future")]


def test_a_future_replica_takes_its_place_by_a_rename(tmp_path, logbook):
    directory = LogDirectory.open(tmp_path)
    log = open_log(directory, path=directory.future_path("t", 0))
    written = logbook.append(log, b"a")
    directory.rename(log, "")
    assert (tmp_path / "t-0").is_dir()
    assert logbook.read_all(log) == written
    written += logbook.append(log, b"b")
    log.roll(NOW)
    written += logbook.append(log, b"c")
    assert logbook.read_all(log) == written
    assert {path.suffix for path in (tmp_path / "t-0").iterdir()} >= {".log", ".index", ".timeindex", ".snapshot"}


def test_a_deleted_replica_is_out_of_the_way_at_once_and_gone_later(tmp_path, logbook):
    directory = LogDirectory.open(tmp_path)
    log = open_log(directory)
    written = logbook.append(log, b"a")
    piece = log.read(0, 1000)
    directory.discard(log, NOW)
    assert not (tmp_path / "t-0").exists()
    assert [replica.suffix for replica in directory.replicas()] == [DELETE_SUFFIX]
    open_log(directory)
    assert directory.delete_scheduled(NOW + 59_999) == 1
    assert directory.delete_scheduled(NOW + 60_000) == 0
    assert [replica.suffix for replica in directory.replicas()] == [""]
    assert piece.bytes() == written


def test_checkpoints_and_the_mark_of_a_clean_shutdown_are_for_the_next_start(tmp_path, logbook):
    format_directory(tmp_path)
    directory = LogDirectory.open(tmp_path)
    assert not directory.had_clean_shutdown
    log = open_log(directory)
    for _ in range(3):
        logbook.append(log, b"a")
    log.advance_log_start_offset(2)
    log.close(NOW)
    checkpoints = checkpoints_of([log])
    write_offsets(directory.path, RECOVERY_POINTS, checkpoints.recovery_points)
    write_offsets(directory.path, LOG_START_OFFSETS, checkpoints.log_start_offsets)
    directory.mark_clean_shutdown(17)
    directory.close()
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":17}'

    directory = LogDirectory.open(tmp_path)
    assert directory.had_clean_shutdown
    assert directory.previous_broker_epoch == 17
    log = open_log(directory)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (2, 3, 3)
    directory.close()
    assert not LogDirectory.open(tmp_path).had_clean_shutdown


def test_future_directories_are_new_each_time(tmp_path):
    directory = LogDirectory.open(tmp_path)
    one, other = directory.future_path("t", 0), directory.future_path("t", 0)
    assert one != other
    assert one.endswith(FUTURE_SUFFIX)


def test_many_logs_are_closed_with_one_sync(tmp_path, logbook, monkeypatch):
    directory = LogDirectory.open(tmp_path)
    logs = [open_log(directory, partition=partition) for partition in range(70)]
    for log in logs:
        logbook.append(log, b"a")
    synced = []
    for name in ("fsync", "fdatasync"):
        patch_for_this_thread(monkeypatch, os, name, lambda *_, name=name: synced.append(name))
    monkeypatch.setattr(os, "sync", lambda: synced.append("sync"))  # another thread waits for the disk
    closed = []
    directory.close_logs(logs, NOW, lambda: closed.extend(log.recovery_point for log in logs))
    assert closed == [1] * 70
    assert synced == ["sync"]
    assert {log.recovery_point for log in logs} == {1}
    again = open_log(directory, partition=69)
    again.epochs.assign(5, 1)
    directory.close_logs([again], NOW)
    assert "sync" not in synced[1:]
    assert "fsync" in synced[1:]


def stopped(path, logbook):
    """Returns a log directory after a clean shutdown: the log of t-0 has files, that of t-1 has none."""
    format_directory(path)
    directory = LogDirectory.open(path)
    logs = [open_log(directory, partition=partition) for partition in range(2)]
    logbook.append(logs[0], b"a")
    for log in logs:
        log.close(NOW)
    write_offsets(directory.path, RECOVERY_POINTS, checkpoints_of(logs).recovery_points)
    directory.mark_clean_shutdown(17, directory.notes_of((log, bytes([log.partition]) * 16) for log in logs))
    directory.close()
    return path


def unchanged(directory):
    return {replica.partition: directory.unchanged(replica) for replica in directory.replicas()}


def test_clean_shutdown_notes_each_replica_for_the_next_start(tmp_path, logbook):
    directory = LogDirectory.open(stopped(tmp_path, logbook))
    found = unchanged(directory)
    assert {index: (one.topic_id, one.has_files) for index, one in found.items()} == {
        0: (bytes(16), True),
        1: (b"\1" * 16, False),
    }
    log = open_log(directory, partition=1, noted=found[1])
    logbook.append(log, b"first")
    assert logbook.values(log) == [(0, b"first")]
    directory.close()
    again = LogDirectory.open(tmp_path)
    assert unchanged(again) == {0: found[0], 1: None}, "the other replica was written to"


def test_replica_whose_folder_was_changed_after_the_shutdown_is_looked_at(tmp_path, logbook):
    (stopped(tmp_path, logbook) / "t-1" / "00000000000000000000.log").write_bytes(b"")
    found = unchanged(LogDirectory.open(tmp_path))
    assert (found[0] is None, found[1] is None) == (False, True)


def test_damaged_notes_of_replicas_count_as_none(tmp_path, logbook):
    path = stopped(tmp_path, logbook) / "odradek-clean-replicas"
    content = path.read_bytes()
    for damaged in (b"", content[:-2], content.replace(b",0]", b",1]"), content.replace(b"t", b"u")):
        assert damaged != content
        path.write_bytes(damaged)
        directory = LogDirectory.open(tmp_path)
        assert unchanged(directory) == {0: None, 1: None}
        directory.close()


def test_log_with_records_by_the_checkpoint_is_looked_at_whatever_was_noted(tmp_path, logbook):
    directory = LogDirectory.open(stopped(tmp_path, logbook))
    log = open_log(directory, noted=CleanReplica(bytes(16), 0, False))
    assert logbook.values(log) == [(0, b"a")]


def test_checkpoints_of_replicas_that_are_gone_are_kept(tmp_path):
    format_directory(tmp_path)
    directory = LogDirectory.open(tmp_path)
    for offsets in (
        directory.checkpoints.recovery_points,
        directory.checkpoints.log_start_offsets,
        directory.checkpoints.high_watermarks,
    ):
        offsets.update({("gone", 0): 5, ("there", 1): 7})
    directory.forget_checkpoint(("there", 2))
    directory.forget_checkpoints([("gone", 0), ("never", 0)])
    kept = {("gone", 0): 5}
    found = directory.checkpoints
    assert (found.recovery_points, found.log_start_offsets, found.high_watermarks) == (kept, kept, kept)
    directory.forget_checkpoints()
    assert directory.checkpoints.high_watermarks == {}
    directory.close()
