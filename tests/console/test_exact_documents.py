"""JSON documents keep the digits of their numbers and all their fields, whatever shows them."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.console.documents import MOST_DEPTH, indented, pairs_of, parsed, written

numbers = st.one_of(
    st.integers().map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?", fullmatch=True),
    st.just("-0"),
    st.integers(4290, 4400).map(lambda count: "7" * count),
)
names = st.sampled_from(["a", "b", "", "p q", "\u00fc"])
blanks = st.sampled_from(["", " ", "\n\t"])


@st.composite
def texts(draw: st.DrawFn, depth: int = 3) -> str:
    """A JSON text with numbers of all forms, and fields that repeat."""
    kind = draw(st.integers(0, 5 if depth else 3))
    if kind == 0:
        return draw(numbers)
    if kind == 1:
        return json.dumps(draw(st.text(max_size=5)), ensure_ascii=draw(st.booleans()))
    if kind < 4:
        return draw(st.sampled_from(["null", "true", "false", '""', "{}", "[]"]))
    inner = draw(st.lists(texts(depth - 1), max_size=3))
    if kind == 4:
        return f"[{','.join(draw(blanks) + one for one in inner)}]"
    return "{" + ",".join(f"{json.dumps(draw(names))}:{draw(blanks)}{one}" for one in inner) + "}"


def tokens(text: str) -> object:
    """The document with each number as its text, and objects as lists of pairs."""
    return json.loads(
        text, object_pairs_hook=list, parse_int=lambda one: ("n", one), parse_float=lambda one: ("n", one)
    )


@given(texts())
def test_document_is_written_as_it_was_read(text: str) -> None:
    assert tokens(written(parsed(text))) == tokens(text)
    assert tokens(written(parsed(text), indent=2)) == tokens(text)


@given(texts())
def test_indented_text_differs_in_blanks_alone(text: str) -> None:
    def without_blanks(one: str) -> list[str]:
        parts = one.split('"')
        return ["".join(part.split()) if number % 2 == 0 else part for number, part in enumerate(parts)]

    if "\\" not in text:
        assert without_blanks(indented(text)) == without_blanks(text)
    assert tokens(indented(text)) == tokens(text)


def test_reported_document_keeps_both_fields_and_the_zero() -> None:
    text = '{"a":1,"a":2,"p":1.10}'
    assert written(parsed(text)) == '{"a": 1, "a": 2, "p": 1.10}'
    assert indented(text) == '{\n  "a": 1,\n  "a": 2,\n  "p": 1.10\n}'


@given(st.integers(1 << 53, 1 << 200))
def test_integers_beyond_2_to_the_53_compare_exactly(number: int) -> None:
    found = parsed(f'{{"n": {number}}}')
    assert isinstance(found, dict) and found["n"] == number and found["n"] != number + 1


def test_values_of_avro_are_written() -> None:
    assert written({"a": b"\xff", "d": Decimal("1.10")}) == '{"a": "/w==", "d": "1.10"}'


@pytest.mark.parametrize(
    "text", ["[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000, "[" * 95 + "]" * 95, "[1,]", ""]
)
def test_text_that_is_too_deep_or_no_json_is_one_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parsed(text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
def test_every_encoding_of_json_is_read(encoding: str) -> None:
    found = parsed(' {"a": 1} '.encode(encoding))
    assert isinstance(found, dict) and pairs_of(found) == [("a", 1)]


def test_deepest_document_is_written() -> None:
    text = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert written(parsed(text)) == text
