"""A decoder of values: what it returns for an array of bytes, and the rows that do not decode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa


class Decoded(NamedTuple):
    """`values`: of the decoder's type for each row, null for null and for rows that do not decode. `bad`: numbers of these,
    ascending.
    """

    values: pa.Array
    bad: list[int]
    reasons: list[str]


class Decoder(Protocol):
    """`type`: of the values that `decode` makes, structs or JSON text."""

    type: pa.DataType

    def decode(self, values: pa.Array) -> Decoded: ...


def without_rows(values: pa.Array, rows: Iterable[int]) -> pa.Array:
    """The values with null, fields included, in these rows."""
    mask = np.zeros(len(values), bool)
    mask[list(rows)] = True
    return values.take(pa.array(np.arange(len(values)), mask=mask))
