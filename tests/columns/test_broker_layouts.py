"""Random logs through a broker: Fetch in small pieces, files that vanish, and Spark's ranges have each record once."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from odradek.columns import SCHEMA, Split, scan
from odradek.columns.cluster import Cluster, LocalReader
from odradek.columns.plan import divided
from odradek.columns.reading import ReadOptions
from odradek.protocol.messages.fetch import PartitionData
from odradek.storage.files.checkpoints import CLEANER_OFFSETS, write_offsets

from tests.columns.harness.layouts import Layout, check_cover, put_into_broker, read, small_reads, unread_by
from tests.columns.harness.logs import rows_of
from tests.columns.harness.world import LEVELS, World

pytestmark = pytest.mark.usefixtures("sockets")

TOPICS = int(os.environ.get("ODRADEK_LAYOUT_TOPICS", "12"))
FIRST_SEED = int(os.environ.get("ODRADEK_LAYOUT_FIRST_SEED", "0"))


class Filled(NamedTuple):
    """A broker with the topics t0, t1 and so on, each with a layout."""

    world: World
    layouts: dict[str, Layout]
    cluster: Cluster


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    base = tmp_path_factory.mktemp("layouts")
    layouts = {}
    world = World(base / "data")
    with world.broker:
        for number in range(TOPICS):
            world.create(f"t{number}", cleanup_policy="compact", min_compaction_lag_ms="1000000000000000")
    for number in range(TOPICS):
        made = Layout(base / f"made-{number}", FIRST_SEED + number)
        made.has_leader_epochs = False
        made.fill(40)
        made.close()
        put_into_broker(made, base / "data" / f"t{number}-0")
        layouts[f"t{number}"] = made
    # A gap in a log that was never compacted is damage.
    ends = {(topic, 0): made.end for topic, made in layouts.items()}
    write_offsets(str(base / "data"), CLEANER_OFFSETS, ends)
    world = World(base / "data")
    with world.broker, Cluster({"bootstrap.servers": world.broker.bootstrap_servers}) as cluster:
        yield Filled(world, layouts, cluster)


def small_fetches(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    fetch, size = Cluster.fetch, rng.choice((1, 300, 2_000, 8 << 20))

    def fetched(self: Cluster, split: Split, offset: int, most_bytes: int = size) -> PartitionData:
        return fetch(self, split, offset, most_bytes)

    monkeypatch.setattr(Cluster, "fetch", fetched)


@pytest.mark.parametrize("number", range(TOPICS))
def test_fetched_records_come_once(filled: Filled, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    topic, rng = f"t{number}", random.Random(FIRST_SEED + number)
    made = filled.layouts[topic]
    for level in LEVELS:
        small_fetches(monkeypatch, rng)
        small_reads(monkeypatch, rng)
        found = scan(topic, bootstrap_servers=filled.world.broker.bootstrap_servers, isolation_level=level)
        (plan,) = found.plan.partitions
        committed = level == LEVELS[1]
        expected = made.expected(committed=committed)
        assert plan.end == (made.last_stable_offset if committed else made.end)
        assert rows_of(found.to_table(), topic) == expected and found.count() == len(expected)
        if plan.start < plan.end:
            whole = replace(plan.splits[-1], path=None, first_offset=plan.start, next_offset=plan.end)
            parts = divided(whole, rng.choice((1, 2, 5)))
            check_cover(parts, plan.start, plan.end)
            rows, readers = read(parts, filled.cluster, topic=topic)
            assert rows == expected and not unread_by(readers)


@pytest.mark.parametrize("number", range(TOPICS))
def test_records_of_vanished_files_are_fetched_once(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    topic, rng = f"t{number}", random.Random(FIRST_SEED + number)
    made = filled.layouts[topic]
    for turn, level in enumerate(LEVELS):
        small_fetches(monkeypatch, rng)
        small_reads(monkeypatch, rng)
        copied = tmp_path / f"{turn}" / f"{topic}-0"
        shutil.copytree(made.path, copied)
        committed = level == LEVELS[1]
        split_bytes = rng.choice((1_000, 1 << 30))
        (plan,) = scan(copied, isolation_level=level, split_bytes=split_bytes).plan.partitions
        client = {"bootstrap.servers": filled.world.broker.bootstrap_servers}
        batches, chance = [], rng.choice((0.05, 0.5))
        for split in plan.splits:
            reader = LocalReader(replace(split, client=client), ReadOptions(SCHEMA.names), filled.cluster)
            for batch in reader:
                batches.append(batch)
                files = sorted(copied.glob("*.log"))
                if files and rng.random() < chance:
                    for file in files[: rng.randint(1, len(files))]:
                        file.unlink()
            assert reader.next_offset == split.next_offset and not reader.unread
        assert rows_of(pa.Table.from_batches(batches, SCHEMA), topic) == made.expected(committed=committed)
