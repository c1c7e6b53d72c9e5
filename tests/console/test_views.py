"""Numbers, charts and graphs as pages show them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from odradek.console import formats
from odradek.console.cluster.history import History
from odradek.console.cluster.model import Snapshot, TopicRow
from odradek.console.cluster.series import MOST_POINTS
from odradek.console.drawings import sparkline
from odradek.console.graphs import MOST_NODES, graph, layers


@pytest.mark.parametrize(("count", "text"), [(None, formats.NONE), (0, "0 B"), (999, "999 B"), (1_234_567, "1.2 MB")])
def test_sizes_are_decimal(count: int | None, text: str) -> None:
    assert formats.size(count) == text


def test_ages_and_times_are_short() -> None:
    assert [formats.age(one) for one in (1500, 90_000, 7_200_000, 172_800_000)] == [
        "1.5 s",
        "1.5 min",
        "2.0 h",
        "2.0 d",
    ]
    assert formats.when(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert formats.when(-1) == formats.NONE
    assert formats.when(1 << 62) == str(1 << 62)


def test_sparkline_ends_at_the_newest_value() -> None:
    drawn = sparkline([0, 5, 10], "Lag")
    line = ElementTree.fromstring(drawn.svg).find("polyline")
    assert line is not None and line.get("points", "").endswith("240.0,2.0")
    assert drawn.text == "Lag: 10 now, 10 at most"
    ElementTree.fromstring(sparkline([], "Lag").svg)


def test_topology_stands_in_layers() -> None:
    edges = {"in": ["count"], "count": ["store", "out"], "other": ["count"]}
    assert layers(edges) == [["in", "other"], ["count"], ["store", "out"]]
    assert layers({"a": ["b"], "b": ["a"]}) == [["a", "b"]]


def test_graph_escapes_names_and_is_bounded() -> None:
    drawn = graph({'<script>"': ["b & c"]}, {"b & c": "store"})
    titles = [one.text for one in ElementTree.fromstring(drawn.svg).iter("title")]
    assert titles == ['<script>"', "b & c"]
    many = graph({f"n{index}": [f"n{index + 1}"] for index in range(2 * MOST_NODES)}, {})
    assert len(list(ElementTree.fromstring(many.svg).iter("rect"))) == MOST_NODES


def test_history_keeps_the_newest_points() -> None:
    history = History()
    for value in range(MOST_POINTS + 10):
        history.add("lag", value)
    assert len(history.values("lag")) == MOST_POINTS and history.values("lag")[-1] == MOST_POINTS + 9


def test_snapshot_finds_a_topic_by_name() -> None:
    rows = tuple(TopicRow(f"t{number:05}", 1, 1, 0, 0, False, None) for number in range(10_000))
    snapshot = Snapshot(topics=rows)
    assert snapshot.topic("t04711") == rows[4711]
    assert snapshot.topic("t") is None and snapshot.topic("zzz") is None
