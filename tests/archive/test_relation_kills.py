"""A round of `tests.archive.relation_rounds`: all of its faults, each once, while engines read the relation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.archive.harness.broker import Harness
from tests.archive.relation_rounds import BROKER, ENGINES, KINDS, Rounds, is_as_of_one_point

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def own(processes: None, tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path / "broker", BROKER)
    with made.process:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_readings_beside_kills_and_deletions_are_those_of_a_client_as_of_one_point(
    own: Harness, tmp_path: Path, kind: str
) -> None:
    engines = ("arrow", "duckdb") if kind == "iceberg" else ENGINES
    rounds = Rounds(own, kind, tmp_path, seed=1)
    with rounds.readings() as readings:
        rounds.run(readings, 1, engines)
    assert len(rounds.done) == 5 and min(readings.equal[engine] for engine in engines) > 0


def test_rows_that_no_point_has_are_found() -> None:
    """The comparison itself: a row that is missing, there twice, of an old value, or of a point before the reading."""
    records = [(0, b"a", b"1"), (1, b"b", b"2"), (3, b"a", None), (4, b"b", b"5")]
    raw = [records[:2], records[:3], records]
    assert all(is_as_of_one_point(rows, records, False, 1, None) for rows in raw)
    keyed = [[records[0], records[1]], [records[1]], [records[3]]]
    assert all(is_as_of_one_point(rows, records, True, 2, None) for rows in keyed)
    for wrong in (records[1:], [*records[:2], records[1]], [records[0], (1, b"b", b"x")]):
        assert not is_as_of_one_point(wrong, records, False, 0, None)
    assert not is_as_of_one_point([records[0], records[3]], records, True, 0, None)
    assert not is_as_of_one_point(records[:2], records, False, 4, None), "of a point before the reading"
    assert not is_as_of_one_point(records[:2], records, False, 0, 4), "of another point than the relation's end"
