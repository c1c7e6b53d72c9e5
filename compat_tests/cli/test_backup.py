"""`odradek backup` and `odradek restore` on three nodes of Odradek and on Apache Kafka, in a folder and in an S3 server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from compat_tests.broker_process import free_port
from compat_tests.cli import committing
from compat_tests.cli.caught_up import await_brokers
from compat_tests.cli.commands import Done, Run, odradek_command
from compat_tests.recipes import DEADLINE_S, eventually, is_end_of_partition

#: Attempts to kill a process before it ends by itself, which may fail on a busy machine.
_TRIES = 10

Read = list[tuple[int, int, int, bytes | None, bytes | None, Any]]


def all_of(bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed") -> Read:
    """Returns partition, offset, timestamp, key, value and headers of every record."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "isolation.level": isolation})
    consumer.assign([TopicPartition(topic, index, -2) for index in range(partitions)])
    found: Read = []
    left = set(range(partitions))
    deadline = time.monotonic() + DEADLINE_S
    while left:
        assert time.monotonic() < deadline
        for message in consumer.consume(1000, 0.5):
            if is_end_of_partition(message):
                left.discard(message.partition())
            else:
                about = (message.partition(), message.offset(), message.timestamp()[1])
                found.append((*about, message.key(), message.value(), message.headers()))
    consumer.close()
    return sorted(found, key=lambda one: one[:2])


def write(bootstrap: str, topic: str, first: int, count: int, partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(
            topic, f"value {number}".encode(), None if number % 5 == 0 else f"key {number}".encode(),
            partition=number % partitions, timestamp=1_600_000_000_000 + number,
            headers=[("n", str(number).encode()), ("none", None)] if number % 2 else None,
        )  # fmt: skip
    assert producer.flush(DEADLINE_S) == 0


def write_transactions(bootstrap: str, topic: str, name: str) -> None:
    """Partition 0 gets a committed, an aborted and a committed transaction; partition 1 an aborted and a committed one."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(DEADLINE_S)
    for number, (partition, is_committed) in enumerate(((0, True), (0, False), (0, True), (1, False), (1, True))):
        producer.begin_transaction()
        producer.produce(topic, f"{number}".encode(), b"key", partition=partition)
        producer.flush(DEADLINE_S)
        producer.commit_transaction(DEADLINE_S) if is_committed else producer.abort_transaction(DEADLINE_S)
    # A commit is answered before its markers are written, and a backup ends at the last stable offset.
    eventually(lambda: is_stable(bootstrap, topic), what="the markers are written")


def is_stable(bootstrap: str, topic: str) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(2)}
    ends, stable = (
        [future.result(DEADLINE_S).offset for future in admin.list_offsets(wanted, isolation_level=level).values()]
        for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
    )
    return ends == stable


def commit(bootstrap: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    committing.commit(bootstrap, group, [TopicPartition(*where, offset) for where, offset in offsets.items()])


def committed(run: Run, group: str) -> dict[tuple[str, int], int]:
    rows = run("group", "lag", group, "--output", "json").json
    return {(row["topic"], row["partition"]): row["committed"] for row in rows}


def own_configs(run: Run, topic: str) -> dict[str, str]:
    found = {row["key"]: row["value"] for row in run("config", "get", "topic", topic, "--output", "json").json}
    assert found["cleanup.policy"] == "compact"
    return found


def delete_topics(bootstrap: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics(list(names)).values():
        future.result(DEADLINE_S)
    eventually(lambda: not set(names) & set(admin.list_topics(timeout=60).topics), what="the topics are gone")
    await_brokers(bootstrap)


def ends(bootstrap: str, topic: str, partitions: int) -> list[tuple[int, int]]:
    """Returns log start and log end offset of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, index), DEADLINE_S) for index in range(partitions)]
    finally:
        consumer.close()


def test_topics_configs_and_groups_return_with_their_offsets(run: Run, cluster: str, tmp_path: Path) -> None:
    place = str(tmp_path / "backup")
    words = ("--topic", "saved-.*", "--group", "saved-.*")
    run("topic", "create", "saved-orders", "--partitions", "2", "--config", "retention.ms=-1")
    run("topic", "create", "saved-changes", "--partitions", "2", "--config", "cleanup.policy=compact")
    write(cluster, "saved-orders", 0, 100)
    write_transactions(cluster, "saved-changes", "saved-transactions")
    admin = AdminClient({"bootstrap.servers": cluster})
    (trimmed,) = admin.delete_records([TopicPartition("saved-orders", 0, 7)]).values()
    trimmed.result(DEADLINE_S)
    # Among the offsets of transactions only 0 and 4 are committed records in partition 0, and only 2 in partition 1.
    commit(cluster, "saved-billing", {("saved-orders", 0): 20, ("saved-orders", 1): 50, ("saved-changes", 0): 3})
    (first,) = run("backup", place, *words, "--output", "json").json
    assert (first["number"], first["topics"], first["groups"], first["records"]) == (1, 2, 1, 96), first

    write(cluster, "saved-orders", 100, 20)
    commit(cluster, "saved-billing", {("saved-orders", 1): 55})
    (second,) = run("backup", place, *words, "--output", "json").json
    assert (second["number"], second["new_records"], second["records"]) == (2, 20, 116)
    names = ("saved-orders", "saved-changes")
    before = {topic: (all_of(cluster, topic, 2), ends(cluster, topic, 2)) for topic in names}
    assert before["saved-changes"][1] == [(0, 6), (0, 4)]
    configs = own_configs(run, "saved-changes")
    foreign = run("restore", place)
    assert foreign.status == 1 and "has 2 of the topics already" in foreign.err

    delete_topics(cluster, *names)
    admin.delete_consumer_groups(["saved-billing"])["saved-billing"].result(DEADLINE_S)
    previewed = run("restore", place, *words[:2], "--dry-run", "--output", "json").json
    assert "saved-orders" not in run("topic", "list").out
    done = run("restore", place, *words[:2], "--output", "json")
    assert done.status == 0, done.err
    assert [row | {"dry_run": True} for row in done.json] == previewed
    assert [row["offsets"] for row in done.json] == ["kept"] * 4
    for topic in names:
        assert (all_of(cluster, topic, 2), ends(cluster, topic, 2)) == before[topic]
    # Readers of uncommitted records get no fillers either.
    assert all_of(cluster, "saved-changes", 2, "read_uncommitted") == before["saved-changes"][0]
    offsets = {("saved-orders", 0): 20, ("saved-orders", 1): 55, ("saved-changes", 0): 3}
    eventually(lambda: committed(run, "saved-billing") == offsets, what="the group has its offsets")
    assert own_configs(run, "saved-changes") == configs
    delete_topics(cluster, *names)


def test_renumbered_records_have_the_groups_offsets_with_them(three: str, tmp_path: Path) -> None:
    cluster, place = three, str(tmp_path / "backup")

    def run(*words: str) -> Done:
        return odradek_command(*words, "-b", three)

    run("topic", "create", "numbered", "--partitions", "2")
    write_transactions(cluster, "numbered", "numbered-transactions")
    commit(cluster, "numbered-billing", {("numbered", 0): 3, ("numbered", 1): 4})
    assert run("backup", place, "--topic", "numbered", "--group", "numbered-.*").status == 0
    before = all_of(cluster, "numbered", 2)
    delete_topics(cluster, "numbered")
    done = run("restore", place, "--renumber", "--no-settings", "--output", "json")
    assert done.status == 0 and [row["offsets"] for row in done.json] == ["from 0"] * 2, done
    after = all_of(cluster, "numbered", 2)
    assert [one[:2] for one in after] == [(0, 0), (0, 1), (1, 0)]
    assert [one[2:] for one in after] == [one[2:] for one in before]
    offsets = {("numbered", 0): 1, ("numbered", 1): 1}
    eventually(lambda: committed(run, "numbered-billing") == offsets, what="the group has its offsets")
    delete_topics(cluster, "numbered")


def test_damaged_and_missing_chunks_are_named(run: Run, cluster: str, tmp_path: Path) -> None:
    run("topic", "create", "fragile", "--partitions", "1")
    write(cluster, "fragile", 0, 50, partitions=1)
    place = tmp_path / "backup"
    assert run("backup", str(place), "--topic", "fragile").status == 0
    assert run("backup", str(place), "--verify").status == 0
    (chunk,) = place.glob("data/*/fragile/0/*.log")
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    done = run("backup", str(place), "--verify")
    assert done.status == 1 and f"{chunk.name} is damaged" in done.err
    chunk.unlink()
    assert "is missing" in run("restore", str(place), "--dry-run").err
    (manifest,) = place.glob("manifests/*.json")
    manifest.write_bytes(manifest.read_bytes().replace(b"fragile", b"Fragile"))
    assert "its checksum is wrong" in run("restore", str(place), "--dry-run").err
    assert "there is no backup here" in run("restore", str(tmp_path / "nothing")).err


def test_oldest_backup_is_deleted_to_free_space(three: str, tmp_path: Path) -> None:
    """As docs/backup.md describes: the oldest manifest first, then the data that no manifest names."""
    odradek_command("topic", "create", "pruned", "--partitions", "1", "-b", three)
    place = tmp_path / "backup"

    def records() -> str:
        return odradek_command("consume", "pruned", "--from-beginning", "--output", "jsonl", "-b", three).out

    for option in ((), (), ("--full",)):
        assert odradek_command("produce", "pruned", "--create", "-b", three, stdin="1\n2\n3\n").status == 0
        done = odradek_command("backup", str(place), "--topic", "pruned", *option, "-b", three, "--output", "json")
        assert done.status == 0, done.err
    assert done.json[0]["records"] == 9
    before = records()
    oldest, second, left = sorted(place.glob("manifests/*.json"))
    oldest.unlink()
    assert odradek_command("backup", str(place), "--verify").status == 0
    second.unlink()
    named = left.read_text(encoding="utf-8")
    for folder in (place / "data").iterdir():
        if f"data/{folder.name}/" not in named:
            shutil.rmtree(folder)
    assert [folder.name for folder in (place / "data").iterdir()] == [left.stem]
    delete_topics(three, "pruned")
    assert odradek_command("restore", str(place), "-b", three).status == 0
    assert records() == before and before.count("\n") == 9
    delete_topics(three, "pruned")


def started(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "odradek", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end_of(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S)[1])
    except KafkaException:  # not there yet
        return -1
    finally:
        consumer.close()


def test_killed_backup_and_restore_are_completed_by_the_next(three: str, tmp_path: Path) -> None:
    """The records need several chunks: the processes are killed when the first chunk is there."""
    count, place = 24, tmp_path / "backup"
    odradek_command("topic", "create", "large", "--partitions", "1", "-b", three)
    producer = Producer({"bootstrap.servers": three})
    for number in range(count):
        producer.produce("large", os.urandom(900_000) + str(number).encode(), partition=0)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    before = all_of(three, "large", 1)

    for _ in range(_TRIES):
        process = started("backup", str(place), "--topic", "large", "-b", three)
        eventually(lambda: list(place.glob("data/*/large/0/*.log*")), what="a chunk is there")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if not list(place.glob("manifests/*")):
            break
        shutil.rmtree(place)
    assert not list(place.glob("manifests/*"))
    assert "there is no backup here" in odradek_command("restore", str(place), "-b", three).err
    done = odradek_command("backup", str(place), "--topic", "large", "-b", three, "--output", "json")
    assert done.status == 0 and done.json[0]["records"] == count, done.err

    delete_topics(three, "large")
    for _ in range(_TRIES):
        process = started("restore", str(place), "-b", three)
        eventually(lambda: end_of(three, "large") > 0, what="a first record is restored")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode:
            break
        delete_topics(three, "large")
    assert process.returncode == -signal.SIGKILL
    done = odradek_command("restore", str(place), "-b", three, "--output", "json")
    assert done.status == 0, done.err
    assert all_of(three, "large", 1) == before
    delete_topics(three, "large")


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an S3 server with the bucket `backups`."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (tmp_path / "moto.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        import s3fs

        def is_made() -> bool:
            try:
                s3fs.S3FileSystem(endpoint_url=address, skip_instance_cache=True).mkdir("backups")
            except OSError:
                return False
            return True

        eventually(is_made, what="the S3 server answers")
        yield address
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def test_backup_in_an_object_store_returns(three: str, s3: str) -> None:
    odradek_command("topic", "create", "stored", "--partitions", "2", "-b", three)
    write(three, "stored", 0, 60)
    words = ("s3://backups/prod", "--store-option", f"endpoint_url={s3}", "-b", three)
    assert odradek_command("backup", *words, "--topic", "stored").status == 0
    write(three, "stored", 60, 10)
    done = odradek_command("backup", *words, "--topic", "stored", "--output", "json")
    assert done.json[0]["new_records"] == 10 and done.json[0]["records"] == 70
    assert len(odradek_command("backup", *words, "--list", "--verify", "--output", "json").json) == 2
    before = all_of(three, "stored", 2)
    delete_topics(three, "stored")
    done = odradek_command("restore", *words)
    assert done.status == 0, done.err
    assert all_of(three, "stored", 2) == before
    delete_topics(three, "stored")


def test_place_that_cannot_be_is_an_error_in_one_line(three: str, tmp_path: Path) -> None:
    for words, said in (
        (("nowhere://x",), "Protocol not known"),
        ((str(tmp_path), "--store-option", "a=b"), "a folder has none"),
        ((str(tmp_path), "--topic", "("), "is not a regular expression"),
    ):
        done = odradek_command("backup", *words, "-b", three)
        assert done.status != 0 and said in done.err and done.err.count("\n") == 1, done.err
    with (tmp_path / ".lock").open("w") as lock:
        import fcntl

        fcntl.lockf(lock, fcntl.LOCK_EX)
        process = started("backup", str(tmp_path), "-b", three)
        assert "in use by another" in process.communicate(timeout=60)[1]
