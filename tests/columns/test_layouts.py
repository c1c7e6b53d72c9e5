"""Readings of random logs in random cuts have each record once, in order: what was written is the reference."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from odradek.columns import SCHEMA, scan
from odradek.columns.readers import open_split
from odradek.columns.split_reader import ReadOptions
from odradek.storage.files.checkpoints import CLEANER_OFFSETS, write_offsets

from tests.columns.harness.layouts import (
    Damage,
    Layout,
    TieredLayout,
    check_cover,
    check_read_or_named,
    layout_config,
    parts_of,
    read,
    small_reads,
    unread_by,
)
from tests.columns.harness.logs import NOW_MS, Row, rows_of
from tests.harness.examples import examples

SEEDS = int(os.environ.get("ODRADEK_LAYOUT_SEEDS", "40"))
FIRST_SEED = int(os.environ.get("ODRADEK_LAYOUT_FIRST_SEED", "0"))
SEEDS_AT_ONCE = 8
RUN_AT_ONCE = examples(SEEDS_AT_ONCE)
_LEVELS = {False: "read_uncommitted", True: "read_committed"}
_FAR = 1 << 62
#: The first seed of each test. `make check` runs the first group only.
GROUPS = [
    pytest.param(first, marks=[pytest.mark.slow] if first > FIRST_SEED else [])
    for first in range(FIRST_SEED, FIRST_SEED + SEEDS, SEEDS_AT_ONCE)
]


def seeds_from(first: int) -> range:
    return range(first, min(first + RUN_AT_ONCE, FIRST_SEED + SEEDS))


@contextmanager
def noted(text: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise


def latest(rows: list[Row]) -> list[Row]:
    found = {row.key: row for row in rows if row.key is not None}
    return sorted(row for row in found.values() if row.value is not None)


def random_times(rng: random.Random) -> tuple[int, int]:
    chosen = [-2, -1, 0, NOW_MS - 1000, NOW_MS, NOW_MS + rng.randrange(1000), NOW_MS + rng.randrange(10**6), _FAR]
    return rng.choice([(-_FAR, _FAR), (-_FAR, _FAR), tuple(sorted(rng.sample(chosen, 2)))])


def check(made: Layout, rng: random.Random, **source: Any) -> None:
    """Compares one scan with what was written."""
    committed = rng.random() < 0.5
    first, last = sorted(rng.randrange(made.end + 3) for _ in range(2))
    if rng.random() < 0.4:
        first, last = 0, made.end
    times = random_times(rng)
    options: dict[str, Any] = source | {
        "isolation_level": _LEVELS[committed], "start_offsets": first, "end_offsets": last,
        "split_bytes": rng.choice((1, 500, 500, 2_000, 10_000, 1 << 30)),
    }  # fmt: skip
    if times != (-_FAR, _FAR):
        options |= {"start_timestamp": times[0], "end_timestamp": times[1]}
    found = scan(made.topic_path, **options)
    expected = made.expected_within(times, committed=committed, first=first, end=last)
    (plan,) = found.plan.partitions
    check_cover(plan.splits, plan.start, plan.end)
    table = found.to_table()
    assert rows_of(table) == expected
    draw = rng.random()
    if draw < 0.3:
        assert found.count() == len(expected)
        columns = rng.sample(SCHEMA.names, rng.randrange(len(SCHEMA.names)))
        assert found.select(columns).to_table() == table.select(columns)
    elif draw < 0.8:
        parts = parts_of(rng, plan)
        check_cover(parts, plan.start, plan.end)
        rows, readers = read(parts)
        assert rows == expected
        assert [one.next_offset for one in readers] == [one.next_offset for one in parts] and not unread_by(readers)
        assert sum(open_split(one, ReadOptions([])).count() for one in parts) == len(expected)
    else:
        kept = scan(made.topic_path, latest_per_key=True, **options)
        assert rows_of(kept.to_table()) == latest(expected) and kept.count() == len(latest(expected))


@pytest.mark.parametrize("first_seed", GROUPS)
def test_local_scan_has_each_record_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_seed: int) -> None:
    for seed in seeds_from(first_seed):
        rng = random.Random(seed)
        made = Layout(tmp_path / f"{seed}", seed, layout_config(rng, compact=seed % 4 == 0))
        made.fill(rng.choice((3, 15, 50)))
        if seed % 4 == 0:
            made.compact()
        if seed % 2:
            made.close()
        for file in sorted(made.path.iterdir()):
            if file.suffix in (".index", ".snapshot") and rng.random() < 0.1:
                file.unlink()
        for number in range(3):
            if number:
                small_reads(monkeypatch, rng)
            with noted(f"seed {seed}, check {number}"):
                check(made, rng)


def check_other_ranges(made: TieredLayout, rng: random.Random, *, committed: bool) -> None:
    found = scan(
        made.topic_path, client=made.client, isolation_level=_LEVELS[committed], split_bytes=rng.choice((700, 1 << 30))
    )
    rows, readers = read([made.cut_anew(one) for one in found.splits])
    assert rows == made.expected(committed=committed) and not unread_by(readers)


@pytest.mark.parametrize("first_seed", GROUPS)
def test_scan_of_a_store_has_each_record_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_seed: int) -> None:
    remote = 0
    for seed in seeds_from(first_seed):
        rng = random.Random(seed)
        made = TieredLayout(tmp_path / f"{seed}", seed)
        made.fill(rng.choice((20, 60)))
        made.copy_segments()
        for file in made.objects(".index"):
            if rng.random() < 0.1:
                file.unlink()
        for number in range(3):
            if number:
                small_reads(monkeypatch, rng)
            with noted(f"seed {seed}, check {number}"):
                check(made, rng, client=made.client)
                check_other_ranges(made, rng, committed=number == 1)
        remote += any(one.remote is not None for one in scan(made.topic_path, client=made.client).splits)
    assert remote > RUN_AT_ONCE // 4 or RUN_AT_ONCE < 4, "one seed of four has a remote part, or more"


@pytest.mark.parametrize("first_seed", GROUPS)
def test_damaged_files_are_read_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_seed: int) -> None:
    unread = 0
    for seed in seeds_from(first_seed):
        rng = random.Random(seed)
        made = Layout(tmp_path / f"{seed}", seed)
        made.has_gaps = seed % 2 == 0
        made.fill(rng.choice((15, 50)))
        made.close()
        write_offsets(str(made.path.parent), CLEANER_OFFSETS, {})
        damage = Damage(rng, dense=not made.has_gaps)
        for number in range(3):
            small_reads(monkeypatch, rng)
            committed = rng.random() < 0.3
            options = {"isolation_level": _LEVELS[committed], "split_bytes": rng.choice((500, 10_000, 1 << 30))}
            found = scan(made.topic_path, **options)
            victim, whole = (file := rng.choice(made.segments())), file.read_bytes()
            kinds = [damage.flip, damage.cut] if victim != made.segments()[-1] else [damage.flip]
            if not made.has_gaps and victim not in (made.segments()[0], made.segments()[-1]):
                kinds.append(damage.remove)
            if whole:
                rng.choice(kinds)(victim)
            if rng.random() < 0.3 and not committed:
                found = scan(made.topic_path, **options)
            (plan,) = found.plan.partitions
            rows, readers = read(parts_of(rng, plan), skip=True)
            with noted(f"seed {seed}, check {number}"):
                expected = made.expected(committed=committed, first=plan.start, end=plan.end)
                check_read_or_named(expected, rows, readers)
            unread += any(one.unread for one in readers)
            victim.write_bytes(whole)
    assert unread > RUN_AT_ONCE or RUN_AT_ONCE < 4


@pytest.mark.parametrize("first_seed", GROUPS)
def test_damaged_objects_are_read_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_seed: int) -> None:
    unread = 0
    for seed in seeds_from(first_seed):
        rng = random.Random(seed)
        made = TieredLayout(tmp_path / f"{seed}", seed)
        made.has_gaps = seed % 2 == 0
        made.fill(rng.choice((20, 60)))
        made.copy_segments()
        damage = Damage(rng, dense=not made.has_gaps)
        for number in range(3 if made.objects() else 0):
            small_reads(monkeypatch, rng)
            committed = rng.random() < 0.3
            victim = rng.choice(made.objects(rng.choice((".log", ".log", ".log", ".index"))))
            whole = victim.read_bytes()
            if victim.suffix == ".log":
                rng.choice([damage.flip, damage.cut, damage.remove])(victim)
            else:
                victim.write_bytes(rng.randbytes(rng.choice((0, 8, 80))))
            options = {"isolation_level": _LEVELS[committed], "split_bytes": rng.choice((500, 10_000, 1 << 30))}
            (plan,) = scan(made.topic_path, client=made.client, **options).plan.partitions
            rows, readers = read(parts_of(rng, plan), skip=True)
            with noted(f"seed {seed}, check {number}"):
                expected = made.expected(committed=committed, first=plan.start, end=plan.end)
                check_read_or_named(expected, rows, readers)
            unread += any(one.unread for one in readers)
            victim.write_bytes(whole)
    assert unread > RUN_AT_ONCE // 8 or RUN_AT_ONCE < 4


#: Seeds with a transaction that another leader aborted in the end of a segment that the log's history does not have.
@pytest.mark.parametrize("seed", [3108])
def test_outcomes_of_another_history_do_not_count(tmp_path: Path, seed: int) -> None:
    """The leader of an unclean election copied the segment, of which the log has only the beginning."""
    rng = random.Random(seed)
    made = TieredLayout(tmp_path, seed)
    made.fill(rng.choice((20, 60)))
    made.copy_segments()
    found = scan(made.topic_path, client=made.client, isolation_level="read_committed")
    assert rows_of(found.to_table()) == made.expected(committed=True)


#: A seed with a later epoch that no flush has written and a copy of a history that the log does not have; one with such an
#: epoch and a copy behind a gap, where the transaction ended that is open before the gap.
@pytest.mark.parametrize("seed", [137, 123])
def test_epochs_that_only_batches_have_are_of_the_history(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    made = TieredLayout(tmp_path, seed)
    made.fill(rng.choice((20, 60)))
    made.copy_segments()
    assert not (made.path / "leader-epoch-checkpoint").exists()
    found = scan(made.topic_path, client=made.client, isolation_level="read_committed")
    assert rows_of(found.to_table()) == made.expected(committed=True)
