"""Numbers of JSON in columns of each type: the number of the text, or a reason, whatever the other rows are."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.columns import InvalidScan
from odradek.columns.json_decoder import JsonDecoder

from tests.harness.examples import examples

_INTEGERS = (pa.int8(), pa.int32(), pa.int64(), pa.uint64())
_DECIMALS = (pa.decimal128(38, 0), pa.decimal128(20, 2))
_FLOATS = (pa.float16(), pa.float32(), pa.float64())
_LIMITS = [
    limit + off
    for bits in (7, 8, 11, 24, 31, 53, 63, 64, 100)
    for limit in (1 << bits, -(1 << bits))
    for off in (-1, 0, 1)
]
_TEXTS = (
    st.sampled_from(_LIMITS).map(str)
    | st.integers(-(1 << 70), 1 << 70).map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(json.dumps)
    | st.floats(allow_nan=False, allow_infinity=False, width=32).map(json.dumps)
    | st.sampled_from(
        ["0", "-0", "-0.0", "1.0", "1E2", "0.1", "0.10", "0.01", "0.001", "65504", "65519.0", "65520.0", "3.4e38", "3.5e38",
         "1e-46", "5e-324", "1e308", "1e309", "123456789012345678.12", "0.1234567890123456789", "9" * 38,
         "9" * 39, "999e36", "1" * 76, "1" * 77, "9" * 400, "1." + "0" * 300]
    )
)  # fmt: skip


def decoded(decoder: JsonDecoder, texts: list[str]) -> list[tuple[Any, str | None]]:
    found = decoder.decode(pa.array([f'{{"n": {one}}}'.encode() for one in texts]))
    reasons = dict(zip(found.bad, found.reasons, strict=True))
    return [(None if one is None else one["n"], reasons.get(row)) for row, one in enumerate(found.values.to_pylist())]


def is_number_of(kind: pa.DataType, text: str, found: Any) -> bool:
    exact = Fraction(text)
    if not pa.types.is_floating(kind):
        return bool(Fraction(found) == exact)
    if text.lstrip("-").isdigit():
        return Fraction(found) == exact
    nearest = pa.scalar(float(text)).cast(kind).as_py()
    return math.isfinite(found) and found == nearest


def is_refused_rightly(kind: pa.DataType, text: str) -> bool:
    """Returns whether a type lacks a number. Integers are not written as fractions."""
    exact, is_integer = Fraction(text), text.lstrip("-").isdigit()
    if pa.types.is_integer(kind):
        return not is_integer or not fits(pa.scalar(int(text), pa.decimal256(76, 0)) if len(text) < 76 else None, kind)
    if pa.types.is_decimal(kind):
        scaled = exact * 10**kind.scale
        return scaled.denominator != 1 or abs(scaled) >= 10**kind.precision
    try:
        nearest = pa.scalar(float(text)).cast(kind).as_py()
    except OverflowError:
        return True
    return not math.isfinite(nearest) or (is_integer and Fraction(nearest) != exact)


def fits(number: pa.Scalar | None, kind: pa.DataType) -> bool:
    try:
        return number is not None and number.cast(kind).as_py() is not None
    except pa.ArrowInvalid:
        return False


@pytest.mark.parametrize("kind", [*_INTEGERS, *_DECIMALS, *_FLOATS], ids=str)
@given(texts=st.lists(_TEXTS, min_size=1, max_size=6))
@settings(max_examples=examples(60), deadline=None)
def test_number_is_that_of_its_text_or_has_a_reason(kind: pa.DataType, texts: list[str]) -> None:
    decoder = JsonDecoder(pa.struct([("n", kind)]))
    together = decoded(decoder, texts)
    for text, (number, reason) in zip(texts, together, strict=True):
        if reason is None:
            assert is_number_of(kind, text, number), (text, number)
        else:
            assert number is None and is_refused_rightly(kind, text), (text, reason)
        ((alone, why),) = decoded(decoder, [text])
        assert (repr(alone), why) == (repr(number), reason)


@pytest.mark.parametrize(
    "kind", [pa.time32("s"), pa.time64("us"), pa.duration("ms"), pa.month_day_nano_interval()], ids=str
)
def test_type_that_no_text_becomes_is_an_error_of_the_schema(kind: pa.DataType) -> None:
    for schema in (kind, pa.list_(kind), pa.struct([("x", kind)])):
        with pytest.raises(InvalidScan, match="JSON values cannot be of the type"):
            JsonDecoder(pa.struct([("a", pa.int64()), ("n", schema)]))


def test_decimals_keep_their_digits() -> None:
    decoder = JsonDecoder(pa.struct([("n", pa.decimal128(20, 2))]))
    assert decoded(decoder, ["123456789012345678.12"]) == [(Decimal("123456789012345678.12"), None)]


MEMBERS = st.recursive(
    st.sampled_from(
        ["1e3", "1.10", "-0.0", "-0", "1E400", "1e-5", "1e22", "0.1234567890123456789", "1" * 70, "true", "null"]
    )
    | st.text(max_size=4).map(lambda text: json.dumps(text, ensure_ascii=False))
    | st.floats(allow_nan=False, allow_infinity=False).map(repr),
    lambda one: (
        st.lists(one, max_size=3).map(lambda parts: f"[{', '.join(parts)}]")
        | st.lists(st.tuples(st.sampled_from(["x", "y", "\x1f", "é"]), one), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{json.dumps(name)}: {part}" for name, part in pairs) + "}"
        )
    ),
    max_leaves=5,
)


@given(st.lists(MEMBERS, min_size=1, max_size=6))
@settings(max_examples=examples(60), deadline=None)
def test_text_of_a_value_does_not_depend_on_the_other_rows(members: list[str]) -> None:
    """DuckDB reads most rows, and Python all of them where others need it: of either a value has the same text."""
    decoder = JsonDecoder(pa.struct([("s", pa.string())]))
    values = pa.array([f'{{"s": {one}}}'.encode() for one in members])
    found = decoder.decode(values)
    decoder._transform = None
    again = decoder.decode(values)
    assert found.values.to_pylist() == again.values.to_pylist() and (found.bad, found.reasons) == (
        again.bad,
        again.reasons,
    )


def test_many_missing_fields_of_others_leave_a_number_as_it_is() -> None:
    names = [f"f{at}" for at in range(20)]
    decoder = JsonDecoder(pa.struct([(name, pa.string()) for name in names]))
    first = b'{"f0": 1e3, "f1": {"a": 1.10, "a": 2}}'
    full = json.dumps(dict.fromkeys(names, "x")).encode()
    alone = JsonDecoder(pa.struct([("f0", pa.string()), ("f1", pa.string())])).decode(pa.array([first]))
    beside = decoder.decode(pa.array([first, full, b"{}"]))
    for name, text in (("f0", "1000.0"), ("f1", '{"a":1.1,"a":2}')):
        assert pc.struct_field(alone.values, name)[0].as_py() == text == pc.struct_field(beside.values, name)[0].as_py()
