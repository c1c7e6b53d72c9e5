"""`odradek tier` against a broker whose closed segments are in a folder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from compat_tests.cli.commands import odradek_command
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually
from compat_tests.tiers.tiered import (
    STORE_CLASS,
    TOPIC,
    await_local_start,
    await_remote,
    local_bases,
    make_topic,
    produce,
    remote_segments,
    values_of,
)

RECORDS = 5000


@pytest.fixture
def store(folder: Path) -> Path:
    return folder


@pytest.fixture
def config(tmp_path: Path, store: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(f"remote.log.storage.manager.class.name={STORE_CLASS}\nrsm.config.dir={store}\n")
    return file


@pytest.fixture
def broker(broker: OdradekProcess, store: Path) -> OdradekProcess:
    """A broker with a topic of which all closed segments are in the store, and none on the disk."""
    make_topic(broker.bootstrap)
    produce(broker.bootstrap, values_of(RECORDS))
    await_remote(store, 4)
    await_local_start(broker.data_dir, int(remote_segments(store)[3].name[:20]))
    return broker


def tier(broker: OdradekProcess, *words: str) -> tuple[int, Any]:
    done = odradek_command("tier", *words, "-b", broker.bootstrap, "--output", "json")
    return done.status, json.loads(done.out)


def test_list_has_offsets_of_disk_and_store(broker: OdradekProcess, store: Path) -> None:
    status, (row,) = tier(broker, "list")
    assert status == 0
    segments = remote_segments(store)
    assert (row["topic"], row["partition"], row["start"], row["end"]) == (TOPIC, 0, 0, RECORDS)
    assert row["local_start"] == row["stored_to"] == local_bases(broker.data_dir)[0]
    assert row["not_stored"] == RECORDS - row["stored_to"]
    assert (row["segments"], row["unfinished"]) == (len(segments), 0)
    assert row["bytes"] == sum(one.stat().st_size for one in segments)


def test_list_of_a_topic_without_tiers_has_its_offsets_and_no_segments(broker: OdradekProcess) -> None:
    make_topic(broker.bootstrap, name="plain", remote_storage_enable="false", local_retention_bytes="-2")
    produce(broker.bootstrap, [b"1", b"2"], topic="plain")
    status, (row,) = tier(broker, "list", "plain")
    assert status == 0
    assert (row["start"], row["local_start"], row["end"], row["not_stored"], row["segments"]) == (0, 0, 2, 2, 0)
    assert row["stored_to"] is None


def test_check_of_a_whole_store_finds_nothing(broker: OdradekProcess, config: Path) -> None:
    assert tier(broker, "check", "--config", str(config)) == (0, [])


def test_check_names_missing_and_short_parts_and_repair_leaves_them(
    broker: OdradekProcess, store: Path, config: Path
) -> None:
    first, second, *_ = remote_segments(store)
    size = first.stat().st_size
    with first.open("r+b") as file:
        file.truncate(100)
    second.with_suffix(".index").unlink()
    status, found = tier(broker, "check", "--config", str(config))
    assert status == 1
    assert [(one["kind"], one["part"], one["size"], one["expected"]) for one in found[:1]] == [
        ("size", "LOG", 100, size)
    ]
    assert [(one["kind"], one["part"], one["offset"]) for one in found[1:]] == [
        ("missing", "OFFSET_INDEX", int(second.name[:20]))
    ]
    assert tier(broker, "repair", "--config", str(config), "--yes") == (0, [])
    assert second.exists() and first.stat().st_size == 100


def test_repair_deletes_objects_that_no_segment_has(broker: OdradekProcess, store: Path, config: Path) -> None:
    kept = {one for one in store.rglob("*") if one.is_file()}
    orphan = remote_segments(store)[0]
    offset, _, rest = orphan.name.partition("-")
    lost = orphan.with_name(f"{offset}-{'A' * 21}Q{rest[22:]}")
    lost.write_bytes(b"an orphan")
    status, found = tier(broker, "check", "--config", str(config))
    assert (status, [(one["kind"], one["size"]) for one in found]) == (1, [("orphan", 9)])
    assert tier(broker, "repair", "--config", str(config), "--dry-run")[1][0]["dry_run"] and lost.exists()
    assert tier(broker, "repair", "--config", str(config), "--yes")[0] == 0
    assert {one for one in store.rglob("*") if one.is_file()} == kept
    assert tier(broker, "check", "--config", str(config)) == (0, [])


def test_deleted_topic_leaves_nothing_in_the_store(broker: OdradekProcess, store: Path, config: Path) -> None:
    assert odradek_command("topic", "delete", TOPIC, "--yes", "-b", broker.bootstrap).status == 0
    eventually(lambda: not remote_segments(store), what="the store has no segment of the topic", deadline_s=60)
    assert tier(broker, "check", "--config", str(config)) == (0, [])
    assert tier(broker, "list") == (0, [])


def test_console_shows_what_disk_and_store_have(broker: OdradekProcess, tmp_path: Path) -> None:
    console = ConsoleProcess(broker.bootstrap, tmp_path)
    try:
        page = Visitor(console.address).get(f"/topics/{TOPIC}/partitions")
    finally:
        console.stop()
    _, (row,) = tier(broker, "list")
    found = re.search(r"In the remote store.*?</table>", page, re.DOTALL)
    assert found is not None
    cells = [re.sub(r"<.*?>|\s", "", cell) for cell in re.findall(r"<td.*?</td>", found[0], re.DOTALL)]
    assert cells == [str(row[name]) for name in ("partition", "local_start", "stored_to", "not_stored")]


def test_configuration_without_a_store_is_named(broker: OdradekProcess, tmp_path: Path) -> None:
    file = tmp_path / "plain.properties"
    file.write_text("node.id=1\n")
    done = odradek_command("tier", "check", "--config", str(file), "-b", broker.bootstrap)
    assert done.status == 2 and f"{file} has no remote.log.storage.manager.class.name" in done.err


def test_check_with_a_wrong_folder_names_it_and_creates_nothing(
    broker: OdradekProcess, config: Path, store: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    config.write_text(config.read_text().replace(str(store), str(wrong)))
    done = odradek_command("tier", "check", "--config", str(config), "-b", broker.bootstrap)
    assert done.status != 0 and f"the folder {wrong}/kafka-tiered-storage is not there" in done.err
    assert not wrong.exists()
