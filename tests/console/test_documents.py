"""Values as trees, texts and hex; units of configs; boxes of replicas; rates; and series of charts."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest
from odradek.admin.connection import Connection
from odradek.console.cluster.decoding import AUTO, RecordDecoder
from odradek.console.cluster.history import History
from odradek.console.cluster.series import MOST_MINUTES, MOST_POINTS
from odradek.console.cluster.topic_rates import TopicRates
from odradek.console.config_values import in_unit_of, with_unit
from odradek.console.field_paths import field_of, paths_of
from odradek.console.hex_dumps import hex_dump
from odradek.console.parts import Node
from odradek.console.replica_boxes import replicas_drawn
from odradek.console.texts import is_drawn, json_text
from odradek.console.trees import MOST_NODES, tree


def count(node: Node) -> int:
    return 1 + sum(map(count, node.children))


def test_tree_has_each_value_with_its_type() -> None:
    made = tree({"id": 7, "paid": True, "card": {"name": "Ada"}, "tags": [None]})
    assert made.text == "4 fields"
    assert [(one.name, one.text, one.type) for one in made.children] == [
        ("id", "7", "number"), ("paid", "true", "boolean"), ("card", "1 field", "object"), ("tags", "1 item", "list"),
    ]  # fmt: skip


def test_tree_of_a_large_or_deep_document_is_cut() -> None:
    assert count(tree(list(range(10 * MOST_NODES)))) <= MOST_NODES + 2
    deep: list[object] = []
    for _ in range(500):
        deep = [deep]
    assert count(tree(deep)) < 100


@pytest.mark.parametrize(
    ("data", "form", "shown"),
    [
        (b'{"a": 1}', "json", {"a": 1}),
        ("Gr\u00fc\u00dfe \u2603\n".encode(), "text", "Gr\u00fc\u00dfe \u2603\n"),
        (b"abc\x00\x01", "hex", "6162 6300 01"),
        (b"\x1b[31m", "hex", "1b5b 3331 6d"),
        ("\u0085".encode(), "hex", "c285"),
        ("\ue000".encode(), "hex", "ee80 80"),
        (b"\xff\xfe", "hex", "fffe"),
    ],
)
def test_bytes_are_text_only_where_a_font_draws_each_character(data: bytes, form: str, shown: object) -> None:
    decoder = RecordDecoder(Connection({}), None)
    assert decoder.decode(data, AUTO, "t")[:2] == (shown, form)


def test_json_has_escapes_for_characters_that_no_font_draws() -> None:
    text = json_text({"a": "bell \u0007, next line \u0085, private \ue000, snow \u2603"})
    assert is_drawn(text) and "\u2603" in text and "\\u0085" in text
    assert json.loads(text)["a"] == "bell \u0007, next line \u0085, private \ue000, snow \u2603"


def test_hex_dump_has_offsets_bytes_and_characters() -> None:
    assert hex_dump(b"Odradek\x00" * 2 + b"!").splitlines() == [
        "00000000  4f 64 72 61 64 65 6b 00 4f 64 72 61 64 65 6b 00  Odradek.Odradek.",
        "00000010  21                                               !",
    ]


def test_fields_have_paths_and_values() -> None:
    documents = [{"id": 1, "card": {"name": "Ada", "no": None}}, {"id": 2, "a.b": [1]}, "text", None]
    assert paths_of(documents) == ["id", "card.name", "card.no", "a.b"]
    assert [field_of(documents[0], path) for path in ("id", "card.name", "card.no", "card.missing", "id.x")] == [
        "1", "Ada", "null", None, None,
    ]  # fmt: skip
    assert field_of(documents[1], "a.b") == "[1]"


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("retention.ms", "604800000", "7.0 d"),
        ("retention.ms", "-1", "no limit"),
        ("segment.bytes", "1073741824", "1.1 GB"),
        ("local.retention.bytes", "-2", "as the log's"),
        ("flush.messages", str((1 << 63) - 1), "no limit"),
        ("cleanup.policy", "delete", ""),
        ("min.insync.replicas", "2", ""),
    ],
)
def test_configs_have_units(key: str, value: str, shown: str) -> None:
    assert with_unit(key, value) == shown


@pytest.mark.parametrize(
    ("key", "synonym", "value", "shown"),
    [
        ("retention.ms", "log.retention.hours", "168", "604800000"),
        ("retention.ms", "log.retention.minutes", "2", "120000"),
        ("retention.ms", "log.retention.ms", "5", "5"),
        ("retention.ms", "log.retention.hours", "-1", "-1"),
        ("segment.bytes", "log.segment.bytes", "7", "7"),
    ],
)
def test_defaults_of_brokers_have_the_unit_of_the_topics_key(key: str, synonym: str, value: str, shown: str) -> None:
    assert in_unit_of(key, synonym, value) == shown


def test_replicas_of_a_broker_stand_below_each_other_with_their_state() -> None:
    drawn = replicas_drawn(2, [2, 4], [2], [1, 2, 3, 4], frozenset())
    boxes = {
        one.findtext("text"): (one.get("class"), one.find("rect").get("x"))  # type: ignore[union-attr]
        for one in ElementTree.fromstring(drawn.svg).iter("g")
    }
    assert boxes == {"2": ("leader", "31"), "4": ("behind", "91")}
    assert "led by 2, not in sync: 4" in drawn.svg
    assert 'class="away"' in replicas_drawn(-1, [3], [], [3], frozenset([3])).svg


def test_rates_are_of_two_readings_and_viewers_share_one() -> None:
    now = 100.0
    rates = TopicRates(lambda: now)
    assert rates.note("t", 0, {0: 10, 1: 5}, {0: 1000}).records_per_s == {}
    now = 105.0
    found = rates.note("t", 0, {0: 60, 1: 5}, {0: 2000})
    assert found.records_per_s == {0: 10.0, 1: 0.0} and found.bytes_per_s == 200.0 and found.is_new
    now = 105.5
    again = rates.note("t", 0, {0: 1000}, {0: 2000})
    assert again.records_per_s == {0: 10.0, 1: 0.0} and not again.is_new
    now = 1000.0
    assert rates.note("t", 0, {0: 1000}, {0: 100}).records_per_s == {}


def test_series_keeps_six_hours_of_means_before_its_newest_points() -> None:
    now = 0.0
    history = History(clock=lambda: now)
    for index in range(60_000):
        now = index * 2.0
        history.add("lag", float(index % 30))
    times, values = history.points("lag")
    assert len(times) == len(values) == MOST_POINTS + MOST_MINUTES and list(times) == sorted(times)
    assert times[-1] == now and now - times[0] > 6 * 3600
    assert all(13 < value < 16 for value in values[:MOST_MINUTES])
