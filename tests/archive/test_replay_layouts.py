"""Tables whose files lie as a seed decides: a replay reads each row of its range once, in the order of offsets."""

from __future__ import annotations

import datetime
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest
from odradek.archive import Replay, ReplayRange, replay
from odradek.archive.rows import DEAD_LETTER_SCHEMA, RAW_SCHEMA

from tests.archive.harness.broker import Harness
from tests.archive.harness.tables import KINDS, START, covered, open_table, source_of

SEEDS = int(os.environ.get("ODRADEK_REPLAY_SEEDS", "3"))
_HOUR_MS = 3_600_000
_START_MS = int(START.timestamp() * 1000)


def random_rows(rng: random.Random, ends: dict[int, int]) -> pa.Table:
    """Rows of some partitions behind `ends`, with gaps, in the order of partitions; times in any order."""
    found = []
    for partition in sorted(rng.sample(sorted(ends), rng.randint(1, len(ends)))):
        for _ in range(rng.choice((1, 5, 40))):
            offset = ends[partition] + rng.choice((0, 0, 0, 1, 60))
            stamp = None if rng.random() < 0.1 else START + datetime.timedelta(hours=rng.randrange(50))
            found.append(
                {"partition": partition, "offset": offset, "timestamp": stamp, "timestamp_type": 0, "key": None,
                 "value": rng.randbytes(rng.choice((0, 9, 3_000))), "headers": []}
            )  # fmt: skip
            ends[partition] = offset + 1
    return pa.Table.from_pylist(found, RAW_SCHEMA)


def random_range(rng: random.Random, most: int) -> ReplayRange:
    first, end = sorted(rng.randrange(most + 5) for _ in range(2))
    first_hour, end_hour = sorted(rng.randrange(51) for _ in range(2))
    return ReplayRange(
        partitions=rng.choice((None, [1], [0, 2])),
        start_offset=rng.choice((None, first)),
        end_offset=rng.choice((None, end)),
        start_ms=rng.choice((None, None, _START_MS + first_hour * _HOUR_MS)),
        end_ms=rng.choice((None, None, _START_MS + end_hour * _HOUR_MS)),
    )


def is_within(row: dict, within: ReplayRange, partition: int, start: int) -> bool:
    stamp = None if row["timestamp"] is None else int(row["timestamp"].timestamp() * 1000)
    has_times = within.start_ms is not None or within.end_ms is not None
    return (
        row["partition"] == partition
        and row["offset"] >= max(within.start_offset or 0, start)
        and (within.end_offset is None or row["offset"] < within.end_offset)
        and not (has_times and stamp is None)
        and (within.start_ms is None or stamp >= within.start_ms)
        and (within.end_ms is None or stamp < within.end_ms)
    )


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", KINDS)
def test_replayed_range_has_each_row_once(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    rng, topic = random.Random(seed), f"layouts-{kind}-{seed}"
    harness.create(topic, 3)
    table, ends, written = open_table(kind, tmp_path), dict.fromkeys(range(3), 0), []
    table.evolve(RAW_SCHEMA)
    for _ in range(rng.choice((1, 4, 12))):
        for _ in range(rng.choice((1, 1, 3))):
            rows = random_rows(rng, ends)
            written += rows.to_pylist()
            table.write(rows, DEAD_LETTER_SCHEMA.empty_table())
        table.commit(covered(ends[0], offsets=dict(ends)))
    table.close()
    for _ in range(6):
        monkeypatch.setattr(replay, "_FIRST_SPAN", rng.choice((1, 7, 100, 20_000)))
        monkeypatch.setattr(replay, "_FEWEST_BYTES", rng.choice((1, 5_000, 16 << 20)))
        monkeypatch.setattr(replay, "_MOST_BYTES", rng.choice((5_000, 64 << 20)))
        within = random_range(rng, max(ends.values()))
        made = Replay(source_of(kind, tmp_path), harness.client, topic, within)
        for partition in made.partitions:
            start = rng.choice((None, rng.randrange(ends[partition] + 1)))
            found = [row for rows in made.rows(partition, start) for row in rows.to_pylist()]
            expected = [one for one in written if is_within(one, within, partition, start or 0)]
            assert [(one["offset"], one["value"]) for one in found] == [
                (one["offset"], one["value"]) for one in expected
            ]
        named = range(3) if within.partitions is None else within.partitions
        assert set(made.partitions) >= {one["partition"] for one in written} & set(named)
