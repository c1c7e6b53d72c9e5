"""JSON texts in DuckDB: queries over a column, and the rows that DuckDB may read otherwise than RFC 8259 has them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.json_parsing import MOST_DEPTH

#: Constants and commas that DuckDB takes.
NOT_JSON = r"(?i)[:\[,]\s*-?(?:nan|inf(?:inity)?)\s*[,\]}]|,\s*[\]}]"


class TextQuery:
    """DuckDB over one column of texts."""

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(config={"threads": 1})

    def rows(self, sql: str, texts: pa.Array) -> pa.Array:
        cursor = self._connection.cursor()
        cursor.register("rows", pa.table({"v": texts}))
        table = cursor.sql(sql).to_arrow_table()  # a relation: of a result, DuckDB 2 makes another copy of the rows
        assert table is not None
        found = table.column("v").combine_chunks()
        assert len(found) == len(texts)
        return found


def doubtful_rows(texts: pa.Array, pattern: str) -> list[int]:
    """Rows that match, and those that may have more than MOST_DEPTH levels."""
    is_exotic = pc.match_substring_regex(texts, pattern)
    is_long = pc.greater(pc.binary_length(texts), 2 * MOST_DEPTH)
    if pc.any(is_long).as_py():
        levels = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
        is_exotic = pc.or_(is_exotic, pc.greater(levels, MOST_DEPTH))
    return np.flatnonzero(pc.fill_null(is_exotic, False).to_numpy(False)).tolist()
