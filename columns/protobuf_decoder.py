"""Protobuf messages as columns, by ptars."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..client.user_errors import UserError
from ..records.schema_registry import RegistryFailure
from .decoder import Decoded
from .errors import InvalidScan, SchemaRegistryUnavailable
from .protobuf_columns import ProtobufColumns, check_number_of_columns
from .protobuf_files import ProtobufFiles
from .protobuf_well_known import ColumnValues, Descriptor

T = TypeVar("T")


class ProtobufDecoder:
    """Protobuf messages by ptars. `message_of`: the descriptor of a value's message, and the rest of its bytes.

    Values of other messages than `message` (other versions of its schema) have their fields matched by name. `unit`: of
    timestamps, ns or us.
    """

    def __init__(
        self, message: Descriptor, message_of: Callable[[bytes], tuple[Descriptor, bytes]], unit: str = "ns"
    ) -> None:
        self._message_of = message_of
        self._unit = unit
        self._forms: dict[Descriptor, _Form] = {}
        try:
            self.type = _nullable(self._form(message).type)
        except ValueError as error:
            raise InvalidScan(f"the message {message.full_name} has no columns: {error}") from None

    def _form(self, message: Descriptor) -> _Form:
        if message not in self._forms:
            self._forms[message] = _Form(message, self._unit)
        return self._forms[message]

    def decode(self, values: pa.Array) -> Decoded:
        bad: dict[int, str] = {}
        by_message: dict[Descriptor, tuple[list[int], list[bytes]]] = {}
        for number, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            try:
                message, rest = self._message_of(value)
                self._form(message)
            except RegistryFailure as failure:
                raise SchemaRegistryUnavailable(str(failure)) from None
            except (ValueError, IndexError, UserError) as error:
                bad[number] = str(error)
                continue
            rows, bodies = by_message.setdefault(message, ([], []))
            rows.append(number)
            bodies.append(rest)
        pieces, places = [pa.nulls(1, self.type)], np.zeros(len(values), np.int64)
        at = 1
        for message, (rows, bodies) in by_message.items():
            for kept, piece in self._converted(self._form(message), rows, bodies, bad):
                pieces.append(piece)
                places[kept] = np.arange(at, at + len(piece))
                at += len(piece)
        places[list(bad)] = 0
        made = pa.chunked_array(pieces, self.type).take(pa.array(places)).combine_chunks()
        numbers = sorted(bad)
        return Decoded(made, numbers, [bad[one] for one in numbers])

    def _converted(
        self, form: _Form, rows: list[int], bodies: list[bytes], bad: dict[int, str]
    ) -> list[tuple[list[int], pa.Array]]:
        try:
            found = form.columns(bodies)
            piece = _conformed(found.values, self.type)
        except (ValueError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if len(rows) == 1:
                bad[rows[0]] = f"{form.name}: {str(error).partition(chr(10))[0]}"
                return []
            half = len(rows) // 2
            parts = ((rows[:half], bodies[:half]), (rows[half:], bodies[half:]))
            return [piece for part in parts for piece in self._converted(form, *part, bad)]
        bad |= {rows[number]: reason for number, reason in found.bad.items()}
        return [(rows, piece)]


class _Form:
    """A message, and how its bytes become columns."""

    def __init__(self, message: Descriptor, unit: str) -> None:
        from ptars import HandlerPool

        check_number_of_columns(message)
        files = ProtobufFiles(message)
        replaced = files.replaced()
        self._handler = _without_panic(lambda: HandlerPool([replaced.file]).get_for_message(replaced))
        self._normal, self._is_always_changed = files.normal()
        self._column = ProtobufColumns(unit)
        self._message = message
        self.name = str(message.full_name)
        self.type = self.columns([]).values.type

    def columns(self, bodies: list[bytes]) -> ColumnValues:
        """Raises ValueError and pa.ArrowInvalid for bytes that are no such message, of whichever row."""
        whole = self._read([self._normal(one) for one in bodies] if self._is_always_changed else bodies)
        if not self._is_always_changed and self._column.has_repeated(whole, self._message):
            whole = self._read([self._normal(one) for one in bodies])
        return self._column.of_message(whole, self._message, "")

    def _read(self, bodies: list[bytes]) -> pa.Array:
        batch = _without_panic(lambda: self._handler.array_to_record_batch(pa.array(bodies, pa.binary())))
        fields = [pa.field(one.name, one.type) for one in batch.schema]
        return pa.StructArray.from_arrays(batch.columns, fields=fields) if fields else _empty(len(bodies))


def _without_panic(work: Callable[[], T]) -> T:
    """Returns what ptars makes. Raises ValueError for a panic of Rust, which is no Exception, and would end the process."""
    try:
        return work()
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"the decoder fails: {str(error).partition(chr(10))[0]}") from None


def _empty(rows: int) -> pa.Array:
    return pa.array([{}] * rows, pa.struct([]))


def _conformed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    names = {one.name: number for number, one in enumerate(column.type)}
    columns = [
        pc.struct_field(column, [names[one.name]]).cast(one.type)
        if one.name in names
        else pa.nulls(len(column), one.type)
        for one in kind
    ]
    if not columns:
        return pa.array([{}] * len(column), kind)
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _nullable(kind: pa.DataType) -> pa.DataType:
    """The type with fields that may be null: a schema of another version lacks some."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _nullable(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_nullable(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    return kind
