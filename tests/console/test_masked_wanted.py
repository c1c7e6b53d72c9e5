"""With masks, a search looks at records by what its viewer sees alone, and each record that passes is among them."""

from __future__ import annotations

import base64
import json
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.client.user_errors import Misused
from odradek.console.cluster.filters import filters
from odradek.console.cluster.log_reader import FetchedRecord
from odradek.console.cluster.masks import MASKED, Masks
from odradek.console.cluster.plain_texts import PlainTexts
from odradek.console.cluster.query import Query
from odradek.console.cluster.records import RecordMaker
from odradek.protocol.records.record import Record

from tests.harness.examples import examples

_CONNECTION = Connection({"bootstrap.servers": "127.0.0.1:1"})
_MASKS = Masks(["*password*", "pin"])
_MAKER = RecordMaker(_CONNECTION, _MASKS, None)
_NAMES = st.sampled_from(
    ["name", "password", "old_Password", "pin", "pins", "n", "a.pin", "it's", 'q"', "é", "x\n", "n1"]
)
_WORDS = st.sampled_from(
    [
        "hunter2",
        "key-1",
        "10",
        "42",
        "name",
        "p",
        "abc",
        "nb",
        "true",
        "Žofie",
        " ",
        ".",
        ",",
        "é",
        "\n",
        '"',
        "\\",
        "{",
        "pin",
    ]
)
_ENCODED = st.sampled_from(
    [
        json.dumps({"password": "hunter2"}).encode(),
        b"password",
        b"pin",
        b"\x0cpassword\x0chunter2",
        b"\xffhunter2hunter2",
        b"\x1f\x8b\x08",
        b"\xdfhunter2",
    ]
)
_IN_AN_ENCODING = st.tuples(_ENCODED, st.sampled_from(["base64", "url", "hex", "colons"])).map(
    lambda one: {
        "base64": base64.b64encode(one[0]).decode(),
        "url": base64.urlsafe_b64encode(one[0]).decode().rstrip("="),
        "hex": one[0].hex(),
        "colons": one[0].hex(":"),
    }[one[1]]
)
_PLAIN = st.sampled_from(
    [
        "key-123456",
        "550e8400-e29b-41d4-a716-446655440000",
        "2024-01-01T00:00:00Z",
        "See Ada, at noon.",
        "ada@example.org",
        "deadbeef",
        "ab:cd:ef:01",
        "12345678",
        "BABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg",
    ]
)
_TEXTS = st.one_of(
    st.lists(_WORDS, max_size=4).map("".join),
    _PLAIN,
    _IN_AN_ENCODING,
    st.binary(min_size=1, max_size=12).map(lambda data: base64.b64encode(data).decode()),
    st.tuples(_PLAIN, _IN_AN_ENCODING).map(" ".join),
    st.text(st.sampled_from("AaZz09+/-_.: =#"), max_size=24),
)
_SCALARS = st.one_of(_TEXTS, st.integers(-100, 10**12), st.floats(allow_nan=False), st.booleans(), st.none())
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=4)),
    max_leaves=8,
)
_WRITTEN = st.tuples(_JSON, st.booleans()).map(lambda one: json.dumps(one[0], ensure_ascii=one[1]).encode())
_CONTENTS = st.one_of(
    st.none(),
    st.binary(max_size=8),
    _TEXTS.map(str.encode),
    _WRITTEN,
    st.sampled_from(
        [b'{"n": -0}', b'{"n": 1.10, "n": 2}', b'{"n\\u0031": 1e5}', b'{"a": [' + b"[" * 100, b'{"password": x}']
    ),
)
_EXPRESSIONS = st.one_of(
    st.sampled_from(
        ["hunter2", "key-1", '"n": 10', "nb", "^key-123456$", "-0", "true", "name", "1.10", "Ada", "^$", "e2"]
    ),
    st.lists(
        st.sampled_from(["key", "-1", "10", "p", "^", "$", ".", "*", "[a-z]", "hunter", '"', ": "]), max_size=5
    ).map("".join),
)


def passes(query: Query, one: Record) -> bool:
    message = FetchedRecord(("t", 0), one, 1)
    record = _MAKER.record(message, query)
    return all(check(record, message) for check in filters(query))


@settings(max_examples=examples(800), deadline=None)
@given(content=_CONTENTS, expression=_EXPRESSIONS, of=st.sampled_from(["key", "value"]))
@example(content=b'{"n": "a\\nb"}', expression="nb", of="value")
@example(content=b'{"n": -0}', expression="-0", of="value")
@example(content=b'{"n": [-0]}', expression="-0", of="value")
@example(content=b'{"n": [true]}', expression="true", of="value")
@example(content=b"key-123456", expression="^key-123456$", of="key")
@example(content=b"", expression="^$", of="key")
def test_record_that_passes_is_wanted(content: bytes | None, expression: str, of: str) -> None:
    query = Query("t", **{of: expression})
    one = Record(0, 0, **{of: content})  # type: ignore[arg-type]
    try:
        is_found = passes(query, one)
    except Misused:
        return  # it is no expression
    if is_found:
        assert _MAKER.wanted(query).chosen([one]) == [one]


def hidden_otherwise(value: object, hidden: object) -> object:
    """The document with another content in each masked field."""
    if isinstance(value, dict):
        return {name: hidden if _MASKS.field(name)[1] else hidden_otherwise(one, hidden) for name, one in value.items()}
    return [hidden_otherwise(one, hidden) for one in value] if isinstance(value, list) else value


@settings(max_examples=examples(800), deadline=None)
@given(document=st.dictionaries(_NAMES, _JSON, max_size=4), hidden=st.tuples(_JSON, _JSON), expression=_EXPRESSIONS)
@example(document={"password": ""}, hidden=("hunter2", "hunter3"), expression="hunter2")
@example(document={"n": {"pin": ""}}, hidden=(10, 11), expression='"n": 10')
@example(document={"pin": ""}, hidden=("é\n", "a"), expression="10")
def test_choice_does_not_depend_on_what_masks_hide(
    document: object, hidden: tuple[object, object], expression: str
) -> None:
    contents = [json.dumps(hidden_otherwise(document, one), ensure_ascii=False).encode() for one in hidden]
    query = Query("t", value=expression)
    assert _MAKER.text(contents[0], "auto", "t") == _MAKER.text(contents[1], "auto", "t")
    try:
        wanted = _MAKER.wanted(query)
    except Misused:
        return
    assert wanted.in_batch is None  # the bytes of a batch have what masks hide
    assert len({len(wanted.chosen([Record(0, 0, value=one)])) for one in contents}) == 1


@settings(max_examples=examples(400), deadline=None)
@given(
    hidden=st.tuples(_IN_AN_ENCODING, _IN_AN_ENCODING),
    expression=st.sampled_from(["hunter2", "[a-z]+", "=", "eyJ", "^7b", "68756e"]),
)
def test_keys_that_masks_hide_are_all_looked_at(hidden: tuple[str, str], expression: str) -> None:
    wanted = _MAKER.wanted(Query("t", key=expression))
    for one in hidden:
        if _MAKER.text(one.encode(), "auto", "t") == MASKED:
            assert wanted.chosen([Record(0, 0, key=one.encode())])


@settings(max_examples=examples(1500), deadline=None)
@given(text=_TEXTS)
@example(text="cGFzc3dvcmQ")
@example(text="AAAApass")
@example(text="70:61:73:73")
@example(text="3a70696e")
def test_short_look_finds_what_the_long_one_does(text: str) -> None:
    seen = [_MASKS.document({"n": text}), _MASKS.unparsed(text.encode(), text), _MASKS.header("n", text.encode())]
    with patch.object(PlainTexts, "has", return_value=False):
        assert seen == [
            _MASKS.document({"n": text}),
            _MASKS.unparsed(text.encode(), text),
            _MASKS.header("n", text.encode()),
        ]


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        ("key-123456", True),
        ("550e8400-e29b-41d4-a716-446655440000", True),
        ("2024-01-01T00:00:00Z", True),
        ("See Ada, at noon.", True),
        ("cGFzc3dvcmQ", False),
        ("my password.", False),
        ("two words", False),
        ("Žofie", False),
    ],
)
def test_common_texts_take_a_short_look(text: str, is_plain: bool) -> None:
    assert _MASKS.shows_text(text) is is_plain


def test_masks_by_pattern_and_by_path_look_at_all_records() -> None:
    for masks in (["pattern:[0-9]+"], ["card.number"], ["pin", "card.number"]):
        wanted = RecordMaker(_CONNECTION, Masks(masks), None).wanted(Query("t", key="^key-1$", value="key-1"))
        assert wanted.chosen([Record(0, 0, key=b"a", value=b"{}")])


def test_other_records_are_left_out() -> None:
    wanted = _MAKER.wanted(Query("t", key="^key-123456$"))
    assert not wanted.chosen([Record(0, 0, key=b"key-123457")])
    wanted = _MAKER.wanted(Query("t", value='"n": 10}'))
    assert not wanted.chosen([Record(0, 0, value=b'{"password": 10, "n": 11}')])
