"""JSON values of any kind as the texts that they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.json_parsing import NotJson, parsed
from .decoder import Decoded, without_rows
from .json_in_duckdb import NOT_JSON, TextQuery, doubtful_rows
from .json_texts import texts_of


class JsonTextDecoder:
    """JSON values of any kind as the texts that they are. Texts that are no JSON do not decode."""

    type = pa.string()

    def __init__(self) -> None:
        self._query = TextQuery()

    def decode(self, values: pa.Array) -> Decoded:
        texts, bad = texts_of(values)
        valid = self._query.rows("select json_valid(v) as v from rows", texts)
        doubtful = set(np.flatnonzero(pc.equal(valid, False).fill_null(False).to_numpy(False)).tolist())
        for row in sorted(doubtful | set(doubtful_rows(texts, NOT_JSON))):
            try:
                parsed(texts[row].as_py())
            except NotJson as reason:
                bad[row] = str(reason)
        rows = sorted(bad)
        return Decoded(without_rows(texts, bad) if bad else texts, rows, [bad[row] for row in rows])
