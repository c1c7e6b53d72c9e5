"""Offsets of archives and replays in groups: lag for every tool, and nothing that an archive depends on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from odradek.admin.connection import Connection
from odradek.admin.group_offsets import Committed, committed
from odradek.admin.groups import list_groups
from odradek.admin.pipeline_progress import PipelineKind, newest_progress
from odradek.admin.replay_progress import ReplayProgress, parse_replay_progress
from odradek.archive import ArchiveOptions, Archiver, Replay
from odradek.columns import ValueSchema

from compat_tests.cli.commands import odradek_command
from compat_tests.recipes import eventually
from tests.archive.harness.broker import Harness
from tests.archive.harness.tables import KINDS, open_table, source_of


def archiver(harness: Harness, kind: str, folder: Path, *topics: str, **options: Any) -> Archiver:
    return Archiver(
        harness.client, topics, lambda owner: open_table(kind, folder, owner), ArchiveOptions(**options),
        on_error=lambda topic, error: None,
    )  # fmt: skip


def commits(harness: Harness, group: str) -> dict[tuple[str, int], Committed]:
    with Connection(harness.client).admin() as admin:
        return committed(admin, group)


def offsets(harness: Harness, group: str) -> dict[tuple[str, int], int]:
    return {place: one.offset for place, one in commits(harness, group).items()}


def lag(harness: Harness, group: str) -> int:
    words = ("group", "lag", group, "--total", "--output", "json", "-b", harness.process.bootstrap)
    (total,) = odradek_command(*words).json
    return int(total["lag"])


@pytest.mark.parametrize("kind", KINDS)
def test_group_of_a_table_has_the_lag_of_the_archive(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"lag_{kind}"
    harness.create(topic, 2)
    harness.fill(topic, 30)
    harness.fill(topic, 20, partition=1)
    archiver(harness, kind, tmp_path, topic).run(once=True)
    table = f"kafka.{topic}" if kind == "iceberg" else topic
    group = f"odradek-archive-{table}"
    assert offsets(harness, group) == {(topic, 0): 30, (topic, 1): 20} and lag(harness, group) == 0
    progress = newest_progress(one.metadata for one in commits(harness, group).values())
    assert progress is not None and (progress.kind, progress.error, progress.dead_letters) == (
        PipelineKind.archive,
        "",
        0,
    )
    harness.fill(topic, 7)
    assert lag(harness, group) == 7
    archiver(harness, kind, tmp_path, topic).run(once=True)
    assert lag(harness, group) == 0


def test_named_group_has_the_offsets_of_all_topics_and_none_is_no_group(harness: Harness, tmp_path: Path) -> None:
    for topic in ("first", "second"):
        harness.create(topic)
        harness.fill(topic, 5)
    command = [
        "archive",
        "first",
        "second",
        "--parquet",
        str(tmp_path / "a"),
        "--once",
        "-b",
        harness.process.bootstrap,
    ]
    done = odradek_command(*command, "--commit-group", "nightly")
    assert done.status == 0, done
    assert offsets(harness, "nightly") == {("first", 0): 5, ("second", 0): 5}
    command[4] = str(tmp_path / "b")
    done = odradek_command(*command, "--commit-group", "none")
    assert done.status == 0, done
    with Connection(harness.client).admin() as admin:
        groups = {one.group_id for one in list_groups(admin)}
    assert "none" not in groups and "odradek-archive-first" not in groups and "nightly" in groups
    done = odradek_command(*command, "--commit-group", " ")
    assert done.status == 2 and "--commit-group takes the name of a group" in done.err


def test_archive_continues_where_its_group_has_members_and_says_so_once(harness: Harness, tmp_path: Path) -> None:
    harness.create("shared")
    harness.fill("shared", 5)
    consumer = Consumer(harness.client | {"group.id": "app", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["shared"])
        eventually(lambda: consumer.poll(0.1), what="the member reads")
        notes: list[str] = []
        made = archiver(harness, "parquet", tmp_path, "shared", commit_group="app", on_note=notes.append)
        (done,) = made.run(once=True)
        assert done.rows == 5 and not offsets(harness, "app")
        assert len(notes) == 1 and "the offsets are not committed to group app" in notes[0]
    finally:
        consumer.close()


def test_error_and_dead_letters_of_an_archive_are_beside_its_offsets(harness: Harness, tmp_path: Path) -> None:
    harness.create("faulty")
    harness.write("faulty", [b'{"a": 1}', b"no json", b'{"a": 2}'])
    made = archiver(harness, "parquet", tmp_path, "faulty", values=ValueSchema("json"), freshness_s=0.2)
    running = threading.Thread(target=made.run)
    running.start()

    def progress() -> Any:
        return newest_progress(one.metadata for one in commits(harness, "odradek-archive-faulty").values())

    try:
        first = eventually(progress, what="the first commit")
        assert (first.dead_letters, first.error) == (1, "")
        harness.delete("faulty")
        harness.create("faulty")
        harness.write("faulty", [b'{"a": 1}'])
        failed = eventually(lambda: (one := progress()) and one.error and one, what="the error")
        assert "faulty" in failed.error and failed.dead_letters == 1
    finally:
        made.stop()
        running.join(60)


def test_replay_shows_how_far_in_the_table_it_is(harness: Harness, tmp_path: Path) -> None:
    harness.create("table")
    harness.fill("table", 40)
    archiver(harness, "parquet", tmp_path, "table").run(once=True)
    harness.create("back")
    Replay(source_of("parquet", tmp_path, "table"), harness.client, "back", name="shown").run()
    (one,) = commits(harness, "odradek-replay-shown").values()
    progress = parse_replay_progress(one.metadata)
    assert progress is not None and (progress.offset, progress.end) == (40, 40) and progress.at_ms


def test_progress_of_a_replay_reads_as_it_was_and_that_of_an_earlier_release() -> None:
    progress = ReplayProgress(7, 9, 1_772_600_000_000)
    assert parse_replay_progress(progress.text()) == progress
    assert parse_replay_progress("table-offset=7") == ReplayProgress(7)
    assert parse_replay_progress(progress.text() + "\0") == progress, "confluent-kafka commits the end of a C string"
    assert parse_replay_progress("table-offset=7 more") is parse_replay_progress("") is None
