"""Records of a topic as changes of a keyed table: which are none, and what the others do.

A null value, also the one of JSON, deletes the row of its key. All other records are upserts, but for change events, which
have their kind.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .change_events import ChangeEvents, row_type, with_one_row_type
from .changes import NEWEST, Changes
from .key_columns import VALUE, column_type
from .keyed import Envelope, Keyed
from .store import ArchiveError

#: The property with the columns of the records of a table whose values are change events.
RECORDS = "odradek.record-schema"

_NO_KEY = "the key ({}) is null"
_NO_COLUMNS = "a record without a value has no columns of the key ({}): the row of its key, if any, stays"


def record_schema(stored: pa.Schema, keyed: Keyed, properties: Mapping[str, str]) -> pa.Schema:
    """The columns of the records of a keyed table; for change events with the event as the value."""
    text = properties.get(RECORDS)
    if keyed.envelope is not Envelope.none and text is not None:
        return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(text)))
    return pa.schema([one for one in stored if one.name != NEWEST.name])


class KeyedRecords:
    """Rows of an archive, one for each record, as changes (rows.RowRules)."""

    def __init__(self, keyed: Keyed, topic: str) -> None:
        self._keyed = keyed
        self._topic = topic
        self._has_events = keyed.envelope is Envelope.debezium

    def adapted(self, kind: pa.DataType) -> pa.DataType:
        """The type of the values of records, for a type that follows from them or from their schema."""
        return with_one_row_type(kind) if self._has_events else kind

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the table for rows of a schema. Raises ArchiveError where they lack the key."""
        if self._has_events and VALUE in schema.names:
            number = schema.get_field_index(VALUE)
            schema = schema.set(number, pa.field(VALUE, row_type(schema.field(VALUE).type, self._topic)))
        self._keyed.key.check(schema, self._topic)
        for path in self._keyed.sort_by if VALUE in schema.names else ():
            kind = column_type(schema, path)
            if kind is None or pa.types.is_nested(kind):
                raise ArchiveError(f"topic {self._topic}: no column {path} can order rows (--sort-by)")
        return schema.append(NEWEST)

    def errors(self, rows: pa.RecordBatch) -> dict[int, str]:
        """The rows that are no changes, with the reason. Raises ArchiveError where no row can have the key."""
        if not rows.num_rows:
            return {}
        table = pa.Table.from_batches([rows])
        self.stored_schema(table.schema)
        bad: dict[int, str] = {}
        is_null = _is_null(table)
        if self._has_events and VALUE in table.schema.names:
            bad = self._errors_of_events(table.column(VALUE))
            table = _with_value(table, ChangeEvents(table.column(VALUE), self._topic).rows)
        if self._keyed.key.is_of_record or not is_null.all():
            lacks_key = self._keyed.key.encoded(table).is_null().to_numpy(False)
        else:
            lacks_key = np.ones(table.num_rows, bool)
        if not self._keyed.key.is_of_record:
            lacks_key = lacks_key & ~is_null
            if not self._has_events:  # the deletion before it has deleted the row
                bad |= dict.fromkeys(np.flatnonzero(is_null).tolist(), _NO_COLUMNS.format(self._keyed.key))
        return dict.fromkeys(np.flatnonzero(lacks_key).tolist(), _NO_KEY.format(self._keyed.key)) | bad

    def _errors_of_events(self, values: pa.ChunkedArray) -> dict[int, str]:
        events = ChangeEvents(values, self._topic)
        is_valid = values.is_valid()
        is_other = pc.and_(is_valid, pc.invert(pc.or_(events.is_delete, events.is_upsert)))
        lacks_row = pc.and_(events.is_upsert, events.rows.is_null())
        bad = dict.fromkeys(_places(lacks_row), "the change event has no row after the change")
        ops = events.ops
        return bad | {
            row: f"the event's op is {ops[row].as_py()!r}, which changes no one row" for row in _places(is_other)
        }

    def changes(self, rows: pa.Table) -> Changes:
        """The changes of rows without errors, each with its own timestamp as the newest one."""
        is_delete = _is_null(rows)
        if self._has_events and VALUE in rows.schema.names:
            events = ChangeEvents(rows.column(VALUE), self._topic)
            rows = _with_value(rows, events.rows)
            is_tombstone = is_delete
            is_delete = is_delete | events.is_delete.to_numpy()
            if not self._keyed.key.is_of_record:
                rows, is_delete = rows.filter(pa.array(~is_tombstone)), is_delete[~is_tombstone]
        elif self._has_events and not self._keyed.key.is_of_record:
            rows, is_delete = rows.slice(0, 0), is_delete[:0]  # no value, so far: no row either
        rows = rows.append_column(NEWEST, rows.column("timestamp").cast(NEWEST.type))
        return Changes(rows, self._keyed.key.encoded(rows), is_delete).last()


def _is_null(rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if VALUE not in rows.schema.names:
        return np.ones(rows.num_rows, bool)
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = rows.column(VALUE).is_null().to_numpy()
    return found


def _with_value(rows: pa.Table, values: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(VALUE), pa.field(VALUE, values.type), values)


def _places(mask: pa.ChunkedArray) -> list[int]:
    found: list[int] = np.flatnonzero(pc.fill_null(mask, False).to_numpy()).tolist()
    return found
