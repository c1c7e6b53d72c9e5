"""`odradek log dump` and `odradek doctor` on data directories of Odradek and Apache Kafka, and on both clusters."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from compat_tests.cli.commands import Run, odradek_command
from compat_tests.oracle import ApacheKafka


@pytest.fixture
def data_dir(
    cluster: str, three_directory: Path, apache_kafka: ApacheKafka, run: Run, topic: str, group: str, tmp_path: Path
) -> Path:
    """A copy of a node's data directory, with a topic of three records, a group and a transaction in it."""
    factor = str(len(cluster.split(",")))
    run("topic", "create", topic, "-p", "1", "-r", factor)
    assert run("produce", topic, "--create", "-K", ":", "-H", "h=x", stdin="a:1\nb:2\n").status == 0
    assert run("produce", topic, "--create", "--transactional-id", group, stdin="3\n").status == 0
    assert run("consume", topic, "-g", group, "-o", "beginning", "-c", "2").status == 0
    source = three_directory / "node-1" / "data" if factor == "3" else apache_kafka.data_dir
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(source / "meta.properties", copy)
    # Active indexes have 10 MB each in Apache Kafka's directories: only the tested logs are copied.
    for name in ("__cluster_metadata-0", f"{topic}-0"):
        shutil.copytree(source / name, copy / name)
    return copy


def rows(*words: str) -> list[dict[str, object]]:
    done = odradek_command("log", "dump", *words, "--output", "jsonl")
    assert done.status == 0, done
    return done.lines


def test_batches_and_records_of_a_partition_are_printed(data_dir: Path, topic: str) -> None:
    found = rows(str(data_dir / f"{topic}-0"), "--records", "--kind", "log")
    records = [one for one in found if one["kind"] == "record"]
    assert [(one.get("key"), one.get("value")) for one in records[:3]] == [("a", "1"), ("b", "2"), (None, "3")]
    assert records[0]["headers"] == [{"key": "h", "value": "x"}]
    assert records[3]["control"] == "COMMIT"
    batches = [one for one in found if one["kind"] == "batch"]
    assert [one["transactional"] for one in batches][-2:] == [True, True]
    assert sum(int(str(one["count"])) for one in batches) == 4
    only = rows(str(data_dir / f"{topic}-0"), "--records", "--kind", "log", "--offsets", "2-2")
    assert [one["offset"] for one in only if one["kind"] == "record"] == [2]


def test_everything_in_a_data_directory_is_decoded(data_dir: Path, topic: str, group: str) -> None:
    found = rows(str(data_dir), "--records")
    assert [one for one in found if "undecoded" in one or one["kind"] == "damage"] == []
    types = {one.get("type") for one in found}
    assert {"TopicRecord", "PartitionRecord", "RegisterBrokerRecord"} <= types
    texts = json.dumps(rows(str(data_dir), "--topic", "__cluster_metadata", "--records"))
    assert topic in texts


def test_coordinators_records_are_decoded(
    cluster: str, data_dir: Path, topic: str, group: str, three_directory: Path, apache_kafka: ApacheKafka
) -> None:
    sources = [apache_kafka.data_dir]
    if "," in cluster:  # replicas of the internal topics may lag on one node, not on all
        sources = [three_directory / f"node-{number}" / "data" for number in (1, 2, 3)]
    found = [
        one
        for source in sources
        for name in ("__consumer_offsets", "__transaction_state")
        for one in rows(str(source), "--topic", name, "--records", "--kind", "log")
    ]
    assert any(
        one.get("type") == "OffsetCommit" and group in str(one["key"]) and topic in str(one["key"]) for one in found
    )
    assert any(one.get("type") == "TransactionLog" and group in str(one["key"]) for one in found)


def test_damage_is_shown_with_its_place(data_dir: Path, topic: str) -> None:
    (segment,) = (data_dir / f"{topic}-0").glob("*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-3])
    done = odradek_command("log", "dump", str(segment))
    assert done.status == 1 and "damage: position=" in done.out and "torn tail" in done.out
    segment.write_bytes(whole[:70] + b"\xff" + whole[71:])
    done = odradek_command("log", "dump", str(segment))
    assert done.status == 1 and "wrong CRC" in done.out
    found = odradek_command("doctor", "--data-dir", str(data_dir), "--output", "json")
    assert found.status == 1
    assert any(segment.name in one["finding"] and one["check"] == "damage" for one in found.json)


def test_doctor_finds_strays_missing_indexes_and_settings(data_dir: Path, topic: str, tmp_path: Path) -> None:
    def found(check: str) -> list[str]:
        done = odradek_command("doctor", "--data-dir", str(data_dir), "--output", "jsonl")
        return [Path(one["subject"]).name for one in done.lines if one["check"] == check]

    before = found("stray folder")
    (index,) = (data_dir / f"{topic}-0").glob("*.timeindex")
    index.unlink()
    (data_dir / "notes").mkdir()
    (data_dir / f"{topic}-0.{'0' * 32}-stray").mkdir()
    assert found("index") == [index.name]
    assert len(found("stray folder")) == len(before) + 2
    settings = tmp_path / "server.properties"
    settings.write_text("unclean.leader.election.enable=true\nmin.insync.replicas=1\n")
    done = odradek_command("doctor", "--config", str(settings), "--output", "jsonl")
    assert done.status == 1 and {"setting"} == {one["check"] for one in done.lines} and len(done.lines) == 2


def test_doctor_of_a_running_cluster_names_what_is_wrong(run: Run, cluster: str, topic: str) -> None:
    run("topic", "create", topic, "-p", "1", "-r", "1")
    done = run("doctor", "--output", "jsonl")
    replication = [one["subject"] for one in done.lines if one["check"] == "replication"]
    assert (topic in replication) == ("," in cluster)
    assert {one["check"] for one in done.lines} <= {"replication", "setting", "disk", "leaders"}
    assert done.status == (1 if done.lines else 0)


def test_dump_explains_mistakes(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    for words, status in (
        ((str(tmp_path / "x.txt"),), 1),
        ((str(tmp_path),), 2),
        ((str(tmp_path / "absent.log"),), 1),
        ((str(tmp_path / "x.txt"), "--offsets", "5"), 2),
    ):
        done = odradek_command("log", "dump", *words)
        assert done.status == status and done.err.count("\n") == 1, done
