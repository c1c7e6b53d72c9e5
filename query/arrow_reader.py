"""Rows of DuckDB as a stream of Arrow, by the names that releases have for it."""

from __future__ import annotations

import duckdb
import pyarrow as pa


def arrow_reader(result: duckdb.DuckDBPyRelation | duckdb.DuckDBPyConnection, rows: int) -> pa.RecordBatchReader:
    """A reader of batches of so many rows, which are made as they are read. The caller closes it."""
    name = "to_arrow_reader" if hasattr(result, "to_arrow_reader") else "fetch_record_batch"  # that of DuckDB 1.4
    return getattr(result, name)(rows)
