"""Values of a schema in columns of another type: the same number, or a dead-letter record."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.archive.conforming import conformed

from tests.harness.examples import examples

_TYPES = [
    pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(38, 0), pa.decimal128(38, 2), pa.decimal128(9, 2),
]  # fmt: skip
_NUMBERS = st.sampled_from(
    [0, 1, -1, 7, 1 << 24, (1 << 24) + 1, 1 << 31, (1 << 53) + 1, (1 << 63) - 1, 10**37, 0.5, 1.5, 0.1, 1.005, 1e30, 1e300]
)  # fmt: skip


def array_of(kind: pa.DataType, numbers: list[Any]) -> pa.Array:
    """The numbers that a type has exactly."""
    found = []
    for one in numbers:
        try:
            made = pa.array([Decimal(one) if pa.types.is_decimal(kind) else one], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            continue
        found.append(made[0].as_py())
    return pa.array([*found, None], kind)


@given(old=st.sampled_from(_TYPES), new=st.sampled_from(_TYPES), numbers=st.lists(_NUMBERS, max_size=5))
@settings(max_examples=examples(300), deadline=None)
def test_number_in_another_type_is_the_same_or_refused(old: pa.DataType, new: pa.DataType, numbers: list[Any]) -> None:
    values = array_of(new, numbers)
    found = conformed(values, old, "n")
    for row, (value, made) in enumerate(zip(values.to_pylist(), found.values.to_pylist(), strict=True)):
        if row in found.bad:
            assert made is None and value is not None and found.bad[row].startswith("n: ")
        elif value is None:
            assert made is None
        elif (
            pa.types.is_floating(old) and pa.types.is_decimal(new) and Fraction(value).denominator > 1
        ):  # a fraction has a nearest double
            assert float(made) == pytest.approx(float(value), rel=1e-6)
        elif (
            pa.types.is_decimal(old) and pa.types.is_floating(new) and Fraction(value).denominator > 1
        ):  # the decimal as it is written
            assert float(made) == value
        else:
            assert made == value, (value, made)


@pytest.mark.parametrize("digits", [38, 39, 60, 77, 154, 400])
@pytest.mark.parametrize("digit", ["1", "9"])
def test_text_of_many_digits_is_no_other_decimal(digits: int, digit: str) -> None:
    found = conformed(pa.array([digit * digits, "5", f"{digit * 3}e36", "1e3"]), pa.decimal128(38, 0))
    assert found.values.to_pylist()[1::2] == [Decimal(5), Decimal(1000)]
    assert found.values[2].as_py() is None and 2 in found.bad
    if digits == 38:
        assert found.values[0].as_py() == int(digit * digits) and 0 not in found.bad
    else:
        assert found.values[0].as_py() is None and 0 in found.bad
