"""Batches and records that a search leaves out by their bytes: none of them passes its filter."""

from __future__ import annotations

import json
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.client.user_errors import Misused
from odradek.console.cluster import filters as filters_of_console
from odradek.console.cluster.comparisons import comparisons_in
from odradek.console.cluster.decoding import AUTO
from odradek.console.cluster.filters import filters
from odradek.console.cluster.log_reader import FetchedRecord
from odradek.console.cluster.masks import Masks
from odradek.console.cluster.query import Query
from odradek.console.cluster.records import RecordMaker
from odradek.console.cluster.wanted import EVERYTHING, compared_in, literal_of
from odradek.protocol.records.record import Record

from tests.harness.examples import examples

_CONNECTION = Connection({"bootstrap.servers": "127.0.0.1:1"})
_WORDS = st.sampled_from(
    [
        "key-1",
        "10",
        "a",
        "fe",
        "u00e9",
        "name",
        "Žofie",
        "x.y",
        "ab cd",
        "\\",
        "\n",
        "\x01",
        "/",
        "é",
        "null",
        "-5",
        "\ue000",
    ]
)
_TEXTS = st.lists(_WORDS, max_size=4).map("".join)
_JSON = st.recursive(
    st.one_of(_TEXTS, st.integers(), st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=6,
)
_CONTENTS = st.one_of(
    st.none(),
    st.binary(max_size=12),
    _TEXTS.map(str.encode),
    st.tuples(_JSON, st.booleans(), st.sampled_from([None, 1])).map(
        lambda one: json.dumps(one[0], ensure_ascii=one[1], indent=one[2]).encode()
    ),
    st.sampled_from(
        [b'{"a":"\\u006bey-1"}', b'{"a\\/b":1.10}', b'  {"name" :1}', b'\xef\xbb\xbf{"name":1}', b"\xfe\xfe\x10"]
    ),
)
_PIECES = st.sampled_from(
    [
        "key-1",
        "10",
        "a",
        "fe",
        "name",
        "x.y",
        "ab",
        "^",
        "$",
        ".",
        "*",
        "+",
        "?",
        "{2}",
        "{0,1}",
        "(",
        ")",
        "[ab]",
        "[^a]",
        "[)]",
        "|",
        "\\d",
        "\\.",
        "(?i)",
        "e0",
        "u00e9",
        '"',
        ": ",
        ", ",
        "{",
        "}",
        "[]a]",
        "[[:alpha:]x]",
        "5",
        "-",
        "_",
        "@",
    ]
)
_EXPRESSIONS = st.lists(_PIECES, min_size=1, max_size=6).map("".join)


def passes(query: Query, one: Record) -> bool:
    message = FetchedRecord(("t", 0), one, 1)
    record = RecordMaker(_CONNECTION, Masks(()), None).record(message, query)
    return all(check(record, message) for check in filters(query))


@settings(max_examples=examples(600), deadline=None)
@given(content=_CONTENTS, expression=_EXPRESSIONS, of=st.sampled_from(["key", "value"]))
@example(content=b'{"a":"\\u006bey-1"}', expression="key-1", of="value")
@example(content=b"\xfe\xfe\x10", expression="fefe", of="key")
@example(content="\ue000".encode() * 2, expression="e000", of="value")
@example(content=b'["\xee\x80\x80key"]', expression="0key", of="value")
@example(content=b"ba", expression="[]ab]", of="key")
def test_record_that_passes_is_wanted(content: bytes | None, expression: str, of: str) -> None:
    query = Query("t", **{of: expression})
    one = Record(0, 0, **{of: content})  # type: ignore[arg-type]
    try:
        is_found = passes(query, one)
    except Misused:
        return  # it is no expression
    wanted = RecordMaker(_CONNECTION, Masks(()), None).wanted(query)
    if is_found:
        assert wanted.chosen([one]) == [one]
        assert wanted.in_batch is None or wanted.in_batch(b"before" + (content or b"") + b"after")


_LITERALS = st.one_of(
    st.sampled_from(["name", "key-1", "a", "x.y", "u00e9", "10", "&&", "it's", "\\"]).map(lambda text: f"'{text}'"),
    st.sampled_from(["name", "key-1", '"']).map(lambda text: f'"{text}"'),
    st.sampled_from(["10", "12", "-12", "100", "1e2", "10.5", "0", "1", "true", "null"]),
)
_COMPARISONS = st.tuples(
    st.sampled_from(["@.a", "@['a']", "@.a.name", "@[0]", "@", "length(@.a)", "@.*", "@..a", "!@.a"]),
    st.sampled_from(["==", " == ", "!=", ">="]),
    _LITERALS,
).map("".join)
_CONDITIONS = st.lists(
    st.tuples(_COMPARISONS, st.sampled_from([" && ", "&&", " || ", " or ", ", "])), min_size=1, max_size=3
).map(lambda parts: "".join(text for part in parts for text in part)[: -len(parts[-1][1])])
_COMPARED = st.one_of(
    st.sampled_from([10, 12, -12, 100, 10.5, 100.0, 1e2, 1.2e1, True, None, "name", "key-1", "it's", "x.y", "10"])
)
_DOCUMENTS = st.recursive(
    _COMPARED,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "name", "b"]), inner, max_size=3)
    ),
    max_leaves=5,
)
_WRITTEN = st.tuples(
    _DOCUMENTS, st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"]), st.booleans()
).map(
    lambda one: (
        json.dumps(one[0]).replace("name", "n\\u0061me" if one[2] else "name").replace("100,", "1.0E2,").encode(one[1])
    )
)


@settings(max_examples=examples(600), deadline=None)
@given(content=_WRITTEN, where=_CONDITIONS)
@example(content=b'{"a": 1.2e1}', where="@.a == 12")
@example(content=b'{"a": "n\\u0061me"}', where="@.a == 'name'")
@example(content='{"a": "name"}'.encode("utf-16-le"), where="@.a == 'name'")
@example(content=b'{"a": " && @.b == 12 && "}', where="@.a == ' && @.b == 12 && '")
@example(content=b'{"b": 12}', where="@.a == 'name' && @.a == 10 or @.b == 12")
@example(content=b'{"b": 12}', where="@.a == 'name' && @.a == 10, 0")
@example(content=b'{"0": 12}', where="@[0] == 12")
def test_document_that_a_json_filter_selects_is_wanted(content: bytes, where: str) -> None:
    query = Query("t", where=where)
    one = Record(0, 0, value=content)
    try:
        with patch.object(filters_of_console, "comparisons_in", return_value=[]):
            is_found = passes(query, one)
    except Misused:
        return
    wanted = RecordMaker(_CONNECTION, Masks(()), None).wanted(query)
    if is_found:
        document = RecordMaker(_CONNECTION, Masks(()), None).document(content, AUTO, "t")
        assert all(comparison.may_hold(document) for comparison in comparisons_in(where))
        assert wanted.chosen([one]) == [one]
        assert wanted.in_batch is None or wanted.in_batch(b"\0\x08before" + content + b"after")


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("@.id == 123456", ([], [b"123456"])),
        ("@.of.id == -12 && @.total > 10", ([], [b"12"])),
        ("@['a b'][0] == 'key-1'", ([b"key-1"], [])),
        ("@.a == 'x' && @.b == \"key-2\"", ([b"key-2"], [])),
        ("@.a == 'key-1' || @.b == 12", ([], [])),
        ("length(@.a) == 12", ([], [])),
        ("!(@.a == 12)", ([], [])),
        ("@.a == ' && @.b == 12 && '", ([], [])),
        ("$.a[?@.b == 12]", ([], [])),
        ("@.a == 1", ([], [])),
        ("@.a == 'key-1' && @.b == 12 or @.c == 13", ([], [])),
        ("@.a == 'key-1' && @.b != 12, 0", ([], [])),
        ("@.a == 'key-1' && @.b != 12 && @.c", ([b"key-1"], [])),
        ("@.*  == 12", ([], [])),
    ],
)
def test_words_of_a_json_filter(where: str, words: tuple[list[bytes], list[bytes]]) -> None:
    assert compared_in(where) == words


def test_filters_see_the_same_in_a_searched_record_as_in_a_whole_one() -> None:
    for masks in ((), ("password",), ("pattern:[0-9]+",)):
        maker = RecordMaker(_CONNECTION, Masks(masks), None)
        for content in (b'{"password": "x", "n": 1.10}', b"text 12", b"\xff", b"", None, b'{"a":1,"a":2}'):
            message = FetchedRecord(("t", 0), Record(0, 0, key=content, value=content, headers=[("h", content)]), 1)
            for form in ("auto", "text", "hex", "json"):
                query = Query("t", key_form=form, value_form=form)
                whole, searched = maker.record(message, query), maker.searched(message, query)
                for name in ("key", "value", "headers", "document"):
                    assert getattr(whole, name) == getattr(searched, name), (masks, content, form, name)


def test_batch_without_the_word_is_not_decoded() -> None:
    wanted = RecordMaker(_CONNECTION, Masks(()), None).wanted(Query("t", key="^key-1000$"))
    assert wanted.in_batch is not None
    assert not wanted.in_batch(b"key-999 key-100") and wanted.in_batch(b"key-1000")


def test_masks_and_schemas_leave_out_no_batch() -> None:
    query = Query("t", key="^key-1000$")
    assert RecordMaker(_CONNECTION, Masks(("password",)), None).wanted(query).in_batch is None
    assert RecordMaker(_CONNECTION, Masks(("pattern:[0-9]+",)), None).wanted(query) is EVERYTHING
    assert RecordMaker(_CONNECTION, Masks(()), "http://127.0.0.1:1").wanted(query).in_batch is None
    in_hex = RecordMaker(_CONNECTION, Masks(()), None).wanted(Query("t", key="^key$", key_form="hex"))
    assert in_hex.keys is None and query.key_form == AUTO


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        ("^key-1000$", "key-1000"),
        ("order", "order"),
        ("123456", "123456"),
        ("f00-key", "-key"),
        ("abc?", "ab"),
        ("(order|parcel)", ""),
        ("x{3}yz", "yz"),
        ("[a-z]+-id", "-id"),
        ("(?i)order", ""),
        ("[]ab]", ""),
        (r"\border\b", ""),
        (r"a\.example", "xample"),  # an escape may end with the e
    ],
)
def test_word_of_an_expression(expression: str, word: str) -> None:
    assert literal_of(expression) == word
