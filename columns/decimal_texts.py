"""Texts of decimals, exactly.

Arrow's cast from text does not check digits beyond its numbers of 128 or 256 bits: 39 nines become a negative number.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .layout import Numbers

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
#: Digits that Arrow's types have, by their bits.
_DIGITS = {32: 9, 64: 18, 128: 38, 256: 76}


def doubtful_texts(column: pa.Array, kind: pa.DataType) -> Numbers:
    """Returns which texts Arrow may read wrongly as a decimal type: those with many digits, or an exponent."""
    is_long = pc.greater(pc.utf8_length(column), _DIGITS[kind.bit_width])
    found = pc.or_(is_long, pc.match_substring_regex(column, "[eE]"))
    return pc.fill_null(found, False).to_numpy(False)


def plain_text(text: str, kind: pa.DataType) -> str | None:
    """The number of a text with no more digits than the type has; None where it is none of the type."""
    if _NUMBER.fullmatch(text) is None:
        return None
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits)).lstrip("0")
    significant = written.rstrip("0")
    if not significant:
        return "0"
    exponent += len(written) - len(significant)
    if exponent < -kind.scale or len(significant) + exponent + kind.scale > kind.precision:
        return None
    return f"{Decimal((sign, tuple(map(int, significant)), exponent)):f}"


def with_plain_texts(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The texts as Arrow reads them rightly: a text that is no number of the type stays, with a sign that Arrow refuses."""
    rows = np.flatnonzero(doubtful_texts(column, kind)).tolist()
    if not rows:
        return column
    texts = column.to_pylist()
    for row in rows:
        texts[row] = plain_text(texts[row], kind) or f"{texts[row]} is beyond the type"
    return pa.array(texts, column.type)
