"""Modes of everything that a node writes: only the owner may read it, also what an older version has written."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from odradek.cli.backup.stores import FolderStore

from tests.server.harness.remote_broker import until

OTHERS = stat.S_IRWXG | stat.S_IRWXO
TOPICS = {"plain": {}, "compacted": {"cleanup.policy": "compact", "segment.ms": "100"}, "deleted": {}}


@pytest.fixture(params=[0o000, 0o022], ids=["umask 0", "umask 022"], autouse=True)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def config(folder: Path) -> dict[str, Any]:
    return {
        "log.dirs": f"{folder}/deep/one,{folder}/deep/two",
        "log.cleaner.backoff.ms": 20,
        "log.cleaner.min.cleanable.ratio": 0.0,
        "metadata.log.max.record.bytes.between.snapshots": 1_000,
        "odradek.produce.validation": "full",
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
    }


def fill(broker: odradek.Broker) -> None:
    """Has the broker write files of every kind."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    made = admin.create_topics([NewTopic(name, 3, 1, config=dict(own)) for name, own in TOPICS.items()])
    for future in made.values():
        future.result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for name in TOPICS:
            for number in range(30):
                producer.produce(name, key=str(number % 3), value=b"v" * 100, partition=number % 3)
        producer.flush(30)
        end(30)
    entry = ConfigEntry("ssl.keystore.password", "a-secret", incremental_operation=AlterConfigOpType.SET)
    secret = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([secret])[secret].exception(30)
    admin.delete_topics(["deleted"])["deleted"].result(30)


def loose(folder: Path) -> dict[str, str]:
    """Returns what others may read, write or list below the folder, with its mode."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        with suppress(FileNotFoundError):  # the node renames and removes files meanwhile
            mode = path.lstat().st_mode
            if mode & OTHERS:
                found[str(path.relative_to(folder))] = oct(stat.S_IMODE(mode))
    return found


def loosen(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


async def run(folder: Path, check: Path) -> None:
    async with odradek.Broker(config=config(folder)) as broker:
        await asyncio.to_thread(fill, broker)
        await until(lambda: broker.server.controller.driver.quorum_log.snapshots)
        assert loose(check) == {}
    assert loose(check) == {}


@pytest.mark.usefixtures("sockets")
async def test_every_file_and_folder_of_a_node_is_its_owners(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    await run(folder, folder / "deep" / "one")
    for name in ("one", "two", "one/__cluster_metadata-0"):
        assert stat.S_IMODE((folder / "deep" / name).stat().st_mode) == 0o700
    files = {path.name for path in (folder / "deep").rglob("*") if path.is_file()}
    assert {"odradek-quorum-state", "quorum-state", "bootstrap.checkpoint", "meta.properties", ".lock"} <= files
    assert {path.suffix for path in (folder / "deep").rglob("*")} >= {".log", ".index", ".timeindex", ".checkpoint"}
    assert loose(folder / "deep" / "two") == {}
    assert not (folder / "deep").stat().st_mode & 0o022, "others cannot replace the folder"


@pytest.mark.usefixtures("sockets")
async def test_files_of_an_older_version_are_restricted_by_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    await run(folder, folder / "deep" / "one")
    stray = folder / "deep" / "one" / f"gone-0.{'a' * 32}-stray"
    stray.mkdir()
    (stray / "0.log").write_bytes(b"")
    for name in ("one", "two"):
        loosen(folder / "deep" / name)
    async with odradek.Broker(config=config(folder)):
        assert loose(folder / "deep" / "one") == {}
        assert loose(folder / "deep" / "two") == {}


@pytest.mark.usefixtures("sockets")
async def test_saved_state_is_its_owners(tmp_path: Path) -> None:
    async with odradek.Broker() as broker:
        await broker.save(tmp_path / "saved")
    assert loose(tmp_path / "saved").keys() <= {"odradek-snapshot.json"}
    assert not (tmp_path / "saved").stat().st_mode & OTHERS


@pytest.mark.usefixtures("sockets")
def test_shared_folder_keeps_its_mode(tmp_path: Path) -> None:
    from odradek.storage.files.modes import restrict

    tmp_path.chmod(0o1777)
    assert not restrict(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


@pytest.mark.usefixtures("sockets")
def test_backups_are_their_owners_also_those_of_an_older_version(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "backup"
    store = FolderStore(folder)
    with store.only_one():
        store.write("manifest.json", b"{}")
        store.write("chunks/00/1", b"records")
    assert loose(folder) == {}
    loosen(folder)
    with store.only_one():
        store.write("chunks/00/2", b"records")
    assert loose(folder) == {}
