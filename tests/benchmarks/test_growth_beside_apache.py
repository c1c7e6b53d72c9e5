"""Curves of the growth beside Apache Kafka: the sizes, and the place where a curve bends."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.brokers import APACHE_NAME, ODRADEK_NAME
from benchmarks.growth_beside_apache import Point, bend, doubled, draw, table


def curve(*values: float, is_total: bool = True) -> list[Point]:
    return [Point("row", "s", size, value, is_total) for size, value in zip(doubled(10, 10_000), values, strict=False)]


def test_sizes_double_up_to_the_limit() -> None:
    assert list(doubled(10, 80)) == [10, 20, 40, 80]
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
        ([], None),
    ],
)
def test_curve_bends_where_one_more_costs_half_as_much_again(points: list[Point], size: int | None) -> None:
    assert bend(points) == size


@pytest.mark.usefixtures("processes")
def test_table_and_picture_have_a_curve_for_each_broker(tmp_path: Path) -> None:
    measured = {ODRADEK_NAME: curve(1, 2, 5), APACHE_NAME: curve(2, 4, 8)}
    lines = table(measured).splitlines()
    assert lines[2] == f"| row | {ODRADEK_NAME} | 10: 1, 20: 2, 40: 5 s | - |"
    assert lines[3] == f"| row | {APACHE_NAME} | 10: 2, 20: 4, 40: 8 s | - |"
    draw(measured, tmp_path / "curves.svg")
    assert "<svg" in (tmp_path / "curves.svg").read_text()
