"""Tables sort by a column and filter by a text that the page's address has, and count their rows."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest
from odradek.console.formats import NONE, number, size
from odradek.console.parts import Badge, Link, Moment, Table
from odradek.console.table_order import arranged, sort_key

ROWS = [
    (Link("orders", "/topics/orders"), size(2_000_000), Badge("12", "warn")),
    (Link("Alarms", "/topics/Alarms"), size(900), Badge("3", "good")),
    (Link("bills", "/topics/bills"), size(None), Badge(NONE)),
]


def table() -> Table:
    return Table("Largest topics", ("Topic", "Bytes", "Behind"), ROWS)


def names(given: dict[str, str]) -> list[str]:
    made = arranged(table(), list(given.items()), "/topics")
    return [row[0].text for row in made.rows]


@pytest.mark.parametrize(
    ("column", "descending", "expected"),
    [
        ("Topic", False, ["Alarms", "bills", "orders"]),
        ("Topic", True, ["orders", "bills", "Alarms"]),
        ("Bytes", False, ["Alarms", "orders", "bills"]),
        ("Bytes", True, ["orders", "Alarms", "bills"]),
        ("Behind", True, ["orders", "Alarms", "bills"]),
        ("No such column", False, ["orders", "Alarms", "bills"]),
    ],
)
def test_rows_are_sorted_by_value_and_missing_ones_come_last(
    column: str, descending: bool, expected: list[str]
) -> None:
    given = {"sort": f"largest-topics.{column}"} | ({"desc": "yes"} if descending else {})
    assert names(given) == expected


def test_table_is_not_sorted_by_the_column_of_another_table() -> None:
    assert names({"sort": "partitions.Topic"}) == ["orders", "Alarms", "bills"]


def test_rows_are_filtered_by_any_cell_and_counted() -> None:
    made = arranged(table(), [("filter-largest-topics", "ALA")], "/topics")
    assert [row[0].text for row in made.rows] == ["Alarms"] and made.count == "1 of 3"
    assert arranged(table(), [], "/topics").count == "3"
    cut = table()
    cut.of = 40
    assert arranged(cut, [], "/topics").count == "3 of 40"


def test_heading_links_to_the_sorted_page_and_turns_the_order() -> None:
    def link(given: list[tuple[str, str]]) -> dict[str, str]:
        found = arranged(table(), given, "/topics").headings[1]
        assert found.href.endswith("#largest-topics")
        return dict(parse_qsl(urlsplit(found.href).query))

    first = link([("internal", "yes"), ("page", "3")])
    assert first == {"internal": "yes", "sort": "largest-topics.Bytes", "desc": "yes"}
    assert link(list(first.items())) == {"internal": "yes", "sort": "largest-topics.Bytes"}
    assert [one.sorted for one in arranged(table(), list(first.items()), "/topics").headings] == [
        "none", "descending", "none",
    ]  # fmt: skip


def test_numbers_sort_by_their_value_and_times_by_their_moment() -> None:
    assert sort_key(number(12_000)) > sort_key(number(900.0)) and sort_key(Moment(5)) < sort_key(Moment(40))
    assert sort_key(size(1_500)) < sort_key(size(1_400_000))
