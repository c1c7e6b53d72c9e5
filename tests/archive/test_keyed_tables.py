"""Keyed tables equal a model of their rows: whatever the commits, deaths, merges, and the partitions of a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from odradek.archive.key_columns import KeyColumns
from odradek.archive.keyed import Keyed
from odradek.archive.keyed_table import KeyedTable
from odradek.archive.rows import RAW_SCHEMA
from odradek.archive.store import Covered
from pyiceberg.catalog.sql import SqlCatalog

from tests.archive.harness.keyed import (
    Model,
    Record,
    keyed_rows,
    open_keyed,
    raw_rows,
    rows_by_engine,
    scanned,
)
from tests.archive.harness.tables import TOPIC, TOPIC_ID, dead_letter_rows

pytestmark = pytest.mark.slow

BY_KEY = Keyed(KeyColumns.named(["key"]))


class Died(Exception):
    """The process ended."""


def commit(table: KeyedTable, records: Sequence[Record], offsets: dict[int, int], *dead: int) -> None:
    table.evolve(RAW_SCHEMA)
    half = len(records) // 2
    for part in (records[:half], records[half:]):
        table.write(raw_rows(part), dead_letter_rows())
    table.write(raw_rows([]), dead_letter_rows(*dead))
    table.commit(Covered(TOPIC, TOPIC_ID, offsets))


def ends_of(records: Sequence[Record]) -> dict[int, int]:
    return {one.partition: one.offset + 1 for one in sorted(records, key=lambda one: one.offset)}


@st.composite
def logs(draw: st.DrawFn, *, can_move: bool) -> list[Record]:
    """Records of three partitions, each in the order of its offsets. With `can_move`, a key is in several of them, and no
    record deletes; without, each key has a partition.
    """
    found, offsets = [], [0, 0, 0]
    for number in range(draw(st.integers(5, 30))):
        key = draw(st.integers(0, 8))
        partition = draw(st.integers(0, 2)) if can_move else key % 3
        value = None if not can_move and draw(st.integers(0, 3)) == 0 else b"v%d" % number
        found.append(Record(partition, offsets[partition], b"k%d" % key, value, draw(st.integers(0, 6))))
        offsets[partition] += draw(st.integers(1, 3))
    return found


class Dying:
    """A catalog that ends the process before a commit, or after it and before its response."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.death: str | None = None
        original = SqlCatalog.commit_table

        def commit_table(catalog: SqlCatalog, *given: Any, **named: Any) -> Any:
            death, self.death = self.death, None
            if death == "before":
                raise Died
            response = original(catalog, *given, **named)
            if death == "after":
                raise Died
            return response

        monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)


@pytest.mark.parametrize("can_move", [False, True], ids=["key-in-one-partition", "key-in-several-partitions"])
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a failure is shown as it comes: shrinking takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_rows_equal_the_model_through_commits_deaths_and_merges(
    data: st.DataObject, can_move: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, log = tmp_path_factory.mktemp("keyed"), data.draw(logs(can_move=can_move))
    with pytest.MonkeyPatch.context() as patch:
        dying = Dying(patch)
        table = open_keyed(folder, BY_KEY, target_file_bytes=64 << 10)
        commit(table, [], {})
        table.most_pending_bytes = data.draw(st.sampled_from([1, 1 << 30]))
        done: dict[int, int] = {}
        while left := [one for one in log if one.offset >= done.get(one.partition, 0)]:
            turn = left[: data.draw(st.integers(1, len(left)))]
            dying.death = data.draw(st.sampled_from([None, None, "before", "after"]))
            try:
                commit(table, turn, done | ends_of(turn))
            except Died:
                table = open_keyed(folder, BY_KEY, target_file_bytes=64 << 10)
            dying.death = None
            assert table.covered is not None
            done = table.covered.offsets
            model = Model()
            model.add(one for one in log if one.offset < done.get(one.partition, 0))
            assert keyed_rows(scanned(folder)) == model.rows()
            if data.draw(st.booleans()):
                table.maintain()
                assert keyed_rows(scanned(folder)) == model.rows()
    for engine, rows in rows_by_engine(folder).items():
        assert rows == model.rows() if log else rows == {}, engine
