"""Random logs through a broker: Fetch in small pieces, files that vanish, and Spark's ranges have each record once."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from odradek.columns import SCHEMA, Split, scan
from odradek.columns.cluster import Cluster
from odradek.columns.divided_splits import divided
from odradek.columns.fallback_reader import FallbackReader
from odradek.columns.split_reader import ReadOptions
from odradek.protocol.messages.fetch import PartitionData
from odradek.spark.options import parse
from odradek.spark.planning import batch_splits, limited
from odradek.spark.source import StreamReader
from odradek.storage.files.checkpoints import CLEANER_OFFSETS, write_offsets
from pyspark.sql.types import StructType

from tests.columns.harness.layouts import Layout, check_cover, put_into_broker, read, small_reads, unread_by
from tests.columns.harness.logs import rows_of
from tests.columns.harness.world import LEVELS, World

pytestmark = pytest.mark.usefixtures("sockets")

TOPICS = int(os.environ.get("ODRADEK_LAYOUT_TOPICS", "8"))
Within = dict[str, tuple[int, int]]
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
        batches, rate = [], rng.choice((0.05, 0.5))
        for split in plan.splits:
            reader = FallbackReader(replace(split, client=client), ReadOptions(SCHEMA.names), filled.cluster)
            for batch in reader:
                batches.append(batch)
                files = sorted(copied.glob("*.log"))
                if files and rng.random() < rate:
                    for file in files[: rng.randint(1, len(files))]:
                        file.unlink()
            assert reader.next_offset == split.next_offset and not reader.unread
        assert rows_of(pa.Table.from_batches(batches, SCHEMA), topic) == made.expected(committed=committed)


# ---- Spark's ranges


def spark_options(filled: Filled, rng: random.Random, **more: str) -> dict[str, str]:
    topics = rng.sample(sorted(filled.layouts), rng.choice((1, 2, 3)))
    options = {
        "kafka.bootstrap.servers": filled.world.broker.bootstrap_servers, "subscribe": ",".join(topics),
        "kafka.isolation.level": rng.choice(LEVELS), "splitBytes": str(rng.choice((700, 5_000, 1 << 30))),
    }  # fmt: skip
    if rng.random() < 0.5:
        options["minPartitions"] = str(rng.choice((1, 7, 60)))
    if rng.random() < 0.5:
        options["maxRecordsPerPartition"] = str(rng.choice((13, 100, 1_000)))
    return options | more


def check_ranges(filled: Filled, options: dict[str, str], ranges: Sequence[Split], within: Within) -> None:
    """`within`: topic -> (first offset, offset after the last one)."""
    committed = options["kafka.isolation.level"] == LEVELS[1]
    most = int(options.get("maxRecordsPerPartition", 1 << 60))
    assert all(one.next_offset - one.first_offset <= most for one in ranges)
    for topic, (first, end) in within.items():
        made = filled.layouts[topic]
        end = min(end, made.last_stable_offset if committed else made.end)
        mine = [one for one in ranges if one.topic == topic]
        check_cover(mine, first, max(first, end))
        rows, readers = read(mine, filled.cluster, topic=topic)
        assert rows == made.expected(committed=committed, first=first, end=end) and not unread_by(readers)
    assert {one.topic for one in ranges} <= set(within)


@pytest.mark.parametrize("number", range(TOPICS))
def test_ranges_of_a_batch_query_have_each_record_once(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    rng = random.Random(FIRST_SEED + number)
    small_reads(monkeypatch, rng)
    options, within = spark_options(filled, rng), dict[str, tuple[int, int]]()
    committed = options["kafka.isolation.level"] == LEVELS[1]
    for topic in options["subscribe"].split(","):
        made = filled.layouts[topic]
        first, end = sorted(rng.randrange(made.end + 1) for _ in range(2))
        most = made.last_stable_offset if committed else made.end
        within[topic] = min(first, most), min(end, most)
    options["startingOffsets"] = json.dumps({topic: {"0": first} for topic, (first, _) in within.items()})
    options["endingOffsets"] = json.dumps({topic: {"0": end} for topic, (_, end) in within.items()})
    check_ranges(filled, options, batch_splits(parse(options)), within)


@pytest.mark.parametrize("number", range(TOPICS))
def test_batches_of_a_stream_have_each_record_once(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    rng = random.Random(FIRST_SEED + number)
    small_reads(monkeypatch, rng)
    options = spark_options(filled, rng, startingOffsets="earliest")
    options["maxOffsetsPerTrigger"] = most = str(rng.choice((90, 400, 100_000)))
    reader = StreamReader(parse(options), StructType())
    start, ranges = reader.initialOffset(), list[Split]()
    for _ in range(200):
        end = reader.latestOffset()
        made = [one.split for one in reader.partitions(start, end)]
        assert sum(one.next_offset - one.first_offset for one in made) <= int(most) + len(filled.layouts)
        ranges += made
        if not made:
            break
        start = end
    reader.stop()
    ranges.sort(key=lambda one: one.topic)
    check_ranges(filled, options, ranges, dict.fromkeys(options["subscribe"].split(","), (0, 1 << 60)))


@pytest.mark.parametrize("first_seed", range(0, 200, 100))
def test_limited_offsets_end_at_the_end(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 100):
        rng = random.Random(seed)
        start = {("t", one): rng.randrange(100) for one in range(rng.randint(1, 9))}
        end = {place: at + rng.choice((0, 1, 9, 300)) for place, at in start.items()}
        limit, turns = rng.choice((1, 10, 3_000)), 0
        while start != end:
            found = limited(start, end, limit)
            assert all(start[one] <= found[one] <= end[one] for one in end) and found != start
            assert sum(found[one] - start[one] for one in end) <= limit + len(end)
            start, turns = found, turns + 1
            assert turns <= 400 * len(end) // limit + 10
