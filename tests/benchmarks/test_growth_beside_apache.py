"""Curves of the growth beside Apache Kafka: the sizes, and the place where a curve bends."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.brokers import APACHE_NAME, ODRADEK_NAME
from benchmarks.growth_beside_apache import Point, bend, doubled, table, write


def curve(*values: float, is_total: bool = True, unit: str = "s") -> list[Point]:
    return [Point("row", unit, size, value, is_total) for size, value in zip(doubled(10, 10_000), values, strict=False)]


def test_sizes_double_up_to_the_limit() -> None:
    assert list(doubled(10, 80)) == [10, 20, 40, 80]
    assert list(doubled(10, 100)) == [10, 20, 40, 80, 100]
    assert list(doubled(10, 9)) == []


@pytest.mark.parametrize(
    ("points", "size"),
    [
        (curve(1, 2, 4, 8), None),
        (curve(1, 2, 4, 8.5), None),
        (curve(1, 2, 5.5, 12), 20),
        (curve(5, 6, 8, 12), None),
        (curve(5, 6, 8, 16), 40),
        (curve(3, 3, 3, 3, is_total=False), None),
        (curve(3, 2, 2, 4, is_total=False), 40),
        (curve(0, 0, 1, is_total=False), None),
        (curve(3, 5, 2, 2, is_total=False), None),
        (curve(4, 8, 7, 3, is_total=False, unit="a second"), 40),
        (curve(4, 5, 6, is_total=False, unit="a second"), None),
        ([], None),
    ],
)
def test_curve_bends_where_one_more_costs_half_as_much_again(points: list[Point], size: int | None) -> None:
    assert bend(points) == size


def test_table_has_a_line_for_each_broker() -> None:
    lines = table({ODRADEK_NAME: curve(1, 2, 5.5, 12), APACHE_NAME: curve(2, 4, 8)}).splitlines()
    assert lines[2] == f"| row, s | {ODRADEK_NAME} | 10: 1, 20: 2, 40: 5.5, 80: 12 | 20 |"
    assert lines[3] == f"| row, s | {APACHE_NAME} | 10: 2, 20: 4, 40: 8 | - |"


@pytest.mark.usefixtures("processes")
def test_rows_and_sizes_of_earlier_runs_are_kept_and_measured_ones_replaced(tmp_path: Path) -> None:
    other = [Point("other row", "ms", 1, 2.5, False)]
    write({ODRADEK_NAME: curve(1, 2, 4) + other, APACHE_NAME: curve(3, 6) + other}, tmp_path)
    write({ODRADEK_NAME: curve(1, 3), APACHE_NAME: curve(4, 8)}, tmp_path)
    page = (tmp_path / "growth-beside-apache.md").read_text()
    lines = [f"| row, s | {ODRADEK_NAME} | 10: 1, 20: 3, 40: 4 | - |", f"| row, s | {APACHE_NAME} | 10: 4, 20: 8 | - |"]
    lines += [f"| other row, ms | {broker} | 1: 2.5 | - |" for broker in (ODRADEK_NAME, APACHE_NAME)]
    assert page.splitlines()[-4:] == lines
    assert (tmp_path / "growth-beside-apache.svg").read_text().count("<svg") == 1
