"""Protobuf messages as columns, by ptars.

ptars takes times as nanoseconds, which do not fit 64 bits, and other well-known types by their inner fields. So it gets the
files of a message with other types in these places (`_Files`): a Timestamp and a Duration as their two numbers, JSON
(`Struct`, `Value`, `ListValue`) and messages without a field as bytes. `_ProtobufColumns` makes columns of them, and finds
the rows that no column has.

| field | column |
|---|---|
| Timestamp | timestamp; the unit is the reader's: ns has the years 1678 to 2261, us has all, and cuts |
| Duration | decimal(21, 9), in seconds |
| Struct, Value, ListValue | the JSON text |
| a message without fields | the text {} where it is present |
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..client.user_errors import UserError
from ..records.schema_registry import RegistryFailure
from .errors import SchemaRegistryUnavailable
from .json_values import Decoded
from .layout import Numbers

#: Objects of protobuf, which has no types: descriptors, and messages of descriptor.proto.
Descriptor: TypeAlias = Any
Proto: TypeAlias = Any
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_JSON = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
#: Seconds of a Timestamp: the years 1 to 9999.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
#: Seconds that all fractions of have a number of nanoseconds in 64 bits, neither of which is an infinity of DuckDB.
_LAST_NS_S = 9_223_372_035
#: Seconds of a Duration: 10,000 years.
_LAST_DURATION_S = 315_576_000_000
_NANOS = 1_000_000_000
_SECONDS = pa.decimal128(21, 9)
_OUR_FILE, _OUR_PACKAGE = "odradek/times.proto", "odradek.times"


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
        self.type = _nullable(self._form(message).type)

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


class _Found(NamedTuple):
    """`bad`: the rows of `values` that no column has, with the reasons."""

    values: pa.Array
    bad: dict[int, str]


class _Form:
    """A message, and how its bytes become columns."""

    def __init__(self, message: Descriptor, unit: str) -> None:
        from ptars import HandlerPool

        files = _Files(message)
        replaced = files.replaced()
        self._handler = HandlerPool([replaced.file]).get_for_message(replaced)
        self._normal, self._is_always_changed = files.normal()
        self._column = _ProtobufColumns(unit)
        self._message = message
        self.name = str(message.full_name)
        self.type = self.columns([]).values.type

    def columns(self, bodies: list[bytes]) -> _Found:
        """Raises ValueError and pa.ArrowInvalid for bytes that are no such message, of whichever row."""
        whole = self._read([self._normal(one) for one in bodies] if self._is_always_changed else bodies)
        if not self._is_always_changed and self._column.has_repeated(whole, self._message):
            whole = self._read([self._normal(one) for one in bodies])
        return self._column.of_message(whole, self._message, "")

    def _read(self, bodies: list[bytes]) -> pa.Array:
        try:
            batch = self._handler.array_to_record_batch(pa.array(bodies, pa.binary()))
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise ValueError("the decoder fails for it") from None  # of Rust
        fields = [pa.field(one.name, one.type) for one in batch.schema]
        return pa.StructArray.from_arrays(batch.columns, fields=fields) if fields else _empty(len(bodies))


def _empty(rows: int) -> pa.Array:
    return pa.array([{}] * rows, pa.struct([]))


# ---- the files of a message, as ptars gets them


class _Files:
    """The files of a message with other types for the fields that ptars is not to read."""

    def __init__(self, message: Descriptor) -> None:
        self._message = message
        self._protos: dict[str, Proto] = {}
        self._has_groups = self._has_message_maps = False
        self._collect(message.file)

    def _collect(self, file: Descriptor) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        if file.name in self._protos:
            return
        for one in file.dependencies:
            self._collect(one)
        proto = FileDescriptorProto()
        file.CopyToProto(proto)
        self._protos[file.name] = proto

    def replaced(self) -> Descriptor:
        """The descriptor of the message with the other types."""
        from google.protobuf.descriptor_pool import DescriptorPool

        pool = DescriptorPool()
        pool.AddSerializedFile(_times_file().SerializeToString())
        for proto in self._protos.values():
            if not proto.name.startswith("google/protobuf/"):
                proto.dependency.append(_OUR_FILE)
                for one in proto.message_type:
                    self._replace_in(one, proto.syntax)
            pool.AddSerializedFile(proto.SerializeToString())
        return pool.FindMessageTypeByName(self._message.full_name)

    def _replace_in(self, proto: Proto, syntax: str) -> None:
        for one in proto.nested_type:
            self._replace_in(one, syntax)
        for field in proto.field:
            is_message = field.type in (field.TYPE_MESSAGE, field.TYPE_GROUP)
            self._has_message_maps |= is_message and proto.options.map_entry
            name = field.type_name.lstrip(".")
            if field.type == field.TYPE_GROUP:
                field.type = field.TYPE_MESSAGE
                self._has_groups = True
            if field.type != field.TYPE_MESSAGE:
                continue
            if name in (TIMESTAMP, DURATION):
                field.type_name = f".{_OUR_PACKAGE}.{name.rpartition('.')[2]}"
            elif name in _JSON or not self._has_fields(name):
                self._to_bytes(proto, field, syntax)

    def _has_fields(self, name: str) -> bool:
        return bool(self._message.file.pool.FindMessageTypeByName(name).fields)

    def _to_bytes(self, proto: Proto, field: Descriptor, syntax: str) -> None:
        field.type = field.TYPE_BYTES
        field.ClearField("type_name")
        is_single = field.label != field.LABEL_REPEATED and not field.HasField("oneof_index")
        if is_single and syntax == "proto3" and not proto.options.map_entry:  # bytes have no presence otherwise
            field.proto3_optional = True
            field.oneof_index = len(proto.oneof_decl)
            proto.oneof_decl.add(name=f"_of_{field.name}")

    def normal(self) -> tuple[Callable[[bytes], bytes], bool]:
        """A function that returns the bytes of a message in the form that ptars reads; and whether all messages need it.

        Of a key of a map that comes twice, and of two fields of a `oneof`, the last one counts. Groups become messages, and
        entries of maps have the messages that they lack.
        """
        from google.protobuf.message_factory import GetMessageClass

        change = _without_groups if self._has_groups else _written_again
        return partial(change, GetMessageClass(self._message)), self._has_groups or self._has_message_maps


def _times_file() -> Proto:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    made = FileDescriptorProto(name=_OUR_FILE, package=_OUR_PACKAGE, syntax="proto3")
    for name in (TIMESTAMP, DURATION):
        message = made.message_type.add(name=name.rpartition(".")[2])
        for number, (field, kind) in enumerate((("seconds", Field.TYPE_INT64), ("nanos", Field.TYPE_INT32)), 1):
            message.field.add(name=field, number=number, type=kind, label=Field.LABEL_OPTIONAL)
    return made


def _written_again(kind: Descriptor, data: bytes) -> bytes:
    from google.protobuf.message import DecodeError, EncodeError

    try:
        return bytes(kind.FromString(data).SerializeToString())
    except (DecodeError, EncodeError) as error:
        raise ValueError(str(error)) from None


def _without_groups(kind: Descriptor, data: bytes) -> bytes:
    from google.protobuf.message import DecodeError

    try:
        return _ungrouped(kind.FromString(data))
    except DecodeError as error:
        raise ValueError(str(error)) from None


def _ungrouped(message: Descriptor) -> bytes:
    """The bytes of a message with those of a group as those of a message."""
    made = bytearray()
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            alone = type(message)()
            if field.is_repeated and field.message_type is None:
                getattr(alone, field.name).extend(value)
            elif field.is_repeated:
                getattr(alone, field.name).MergeFrom(value)
            else:
                setattr(alone, field.name, value)
            made += alone.SerializePartialToString()
            continue
        for one in value if field.is_repeated else [value]:
            inner = _ungrouped(one)
            made += _varint(field.number << 3 | 2) + _varint(len(inner)) + inner
    return bytes(made)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*made, number))


# ---- columns


class _ProtobufColumns:
    """Columns of the arrays of ptars. `unit`: of timestamps."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._plain: dict[str, bool] = {}

    def of_message(self, values: pa.Array, message: Descriptor, name: str) -> _Found:
        if not pa.types.is_struct(values.type) or self._is_plain(message, ()):
            return _Found(values, {})
        columns, fields = [], []
        bad: dict[int, str] = {}
        for number, field in enumerate(message.fields):
            path = f"{name}.{field.name}".lstrip(".")
            part = self._of_field(pc.struct_field(values, [number]), field, path)
            columns.append(part.values)
            fields.append(pa.field(values.type[number].name, part.values.type))
            bad = part.bad | bad
        mask = values.is_null() if values.null_count else None
        return _Found(pa.StructArray.from_arrays(columns, fields=fields, mask=mask), bad)

    def has_repeated(self, values: pa.Array, message: Descriptor) -> bool:
        """Returns whether a map has a key twice, or a `oneof` two fields, at any level."""
        if not pa.types.is_struct(values.type):
            return False
        columns = {one.name: pc.struct_field(values, [at]) for at, one in enumerate(message.fields)}
        for choice in message.oneofs:
            valid = [columns[one.name].is_valid().cast(pa.int8()) for one in choice.fields]
            if len(valid) > 1 and pc.any(pc.greater(reduce(pc.add, valid), 1)).as_py():
                return True
        for field in message.fields:
            kind, column = field.message_type, columns[field.name]
            if kind is None or not len(column):
                continue
            if kind.GetOptions().map_entry:
                if _has_twice(column):
                    return True
            elif self.has_repeated(column.flatten() if pa.types.is_list(column.type) else column, kind):
                return True
        return False

    def _is_plain(self, message: Descriptor, within: tuple[str, ...]) -> bool:
        """Returns whether ptars has read all fields of a message, at all levels."""
        name = message.full_name
        if name in within:
            return True
        if name not in self._plain:
            inner = [one.message_type for one in message.fields if one.message_type is not None]
            self._plain[name] = all(not _is_replaced(one) and self._is_plain(one, (*within, name)) for one in inner)
        return self._plain[name]

    def _of_field(self, values: pa.Array, field: Descriptor, name: str) -> _Found:
        kind = field.message_type
        if kind is None:
            return _Found(values, {})
        if kind.GetOptions().map_entry:
            return self._of_map(values, kind, name)
        return self._of_list(values, kind, name) if pa.types.is_list(values.type) else self._of_one(values, kind, name)

    def _of_one(self, values: pa.Array, kind: Descriptor, name: str) -> _Found:
        if kind.full_name == TIMESTAMP:
            return _timestamps(values, self._unit, name)
        if kind.full_name == DURATION:
            return _durations(values, name)
        if kind.full_name in _JSON:
            return _json_texts(values, kind, name)
        if not kind.fields:
            return _Found(pc.if_else(values.is_valid(), pa.scalar("{}"), pa.scalar(None, pa.string())), {})
        return self.of_message(values, kind, name)

    def _of_list(self, values: pa.Array, kind: Descriptor, name: str) -> _Found:
        inner = self._of_one(values.flatten(), kind, f"{name}[]")
        made = pa.ListArray.from_arrays(_offsets(values), inner.values, mask=_mask(values))
        return _Found(made, _of_parents(values, inner.bad))

    def _of_map(self, values: pa.Array, entry: Descriptor, name: str) -> _Found:
        as_list = _as_list(values)
        flat = as_list.flatten()
        value = entry.fields_by_name["value"]
        inner = self._of_field(pc.struct_field(flat, [1]), value, f"{name}{{}}")
        keys = pc.struct_field(flat, [0])
        made = pa.MapArray.from_arrays(_offsets(as_list), keys, inner.values, mask=_mask(values))
        return _Found(made, _of_parents(as_list, inner.bad))


def _has_twice(maps: pa.Array) -> bool:
    if (pc.max(pc.list_value_length(_as_list(maps))).as_py() or 0) < 2:
        return False
    flat = _as_list(maps)
    entries = pa.table({"map": pc.list_parent_indices(flat), "key": pc.struct_field(flat.flatten(), [0])})
    return bool(entries.group_by(["map", "key"]).aggregate([]).num_rows < entries.num_rows)


def _as_list(maps: pa.Array) -> pa.Array:
    return maps.cast(pa.list_(pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)])))


def _is_replaced(message: Descriptor) -> bool:
    return message.full_name in (TIMESTAMP, DURATION, *_JSON) or not message.fields


def _offsets(values: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _of_parents(values: pa.Array, inner: dict[int, str]) -> dict[int, str]:
    if not inner:
        return {}
    parents = pc.list_parent_indices(values)
    return {parents[row].as_py(): reason for row, reason in inner.items()}


def _numbers(values: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
    """The seconds and nanos of structs, and which are valid. Missing ones are 0."""
    parts = [pc.fill_null(pc.struct_field(values, [at]), 0).to_numpy(False).astype(np.int64) for at in range(2)]
    return parts[0], parts[1], values.is_valid().to_numpy(False)


def _is_within(numbers: Numbers, most: int) -> Numbers:
    return (numbers >= -most) & (numbers <= most)  # the absolute of -2^63 is itself


def _timestamps(values: pa.Array, unit: str, name: str) -> _Found:
    seconds, nanos, is_valid = _numbers(values)
    is_time = (seconds >= _FIRST_S) & (seconds <= _LAST_S) & (nanos >= 0) & (nanos < _NANOS)
    fits = is_time & _is_within(seconds, _LAST_NS_S) if unit == "ns" else is_time
    bad = {}
    for row in np.flatnonzero(is_valid & ~fits).tolist():
        shown = f"{name} has {seconds[row]} seconds and {nanos[row]} nanos"
        bad[row] = (
            f"{shown}: a Timestamp has the years 1 to 9999 and nanos from 0 to 999999999"
            if not is_time[row]
            else f"{shown}: a timestamp in nanoseconds has the years 1678 to 2261"
        )
    seconds, nanos = np.where(fits, seconds, 0), np.where(fits, nanos, 0)
    number = seconds * _NANOS + nanos if unit == "ns" else seconds * 1_000_000 + nanos // 1000
    return _Found(pa.array(number, pa.timestamp(unit, tz="UTC"), mask=~(is_valid & fits)), bad)


def _durations(values: pa.Array, name: str) -> _Found:
    seconds, nanos, is_valid = _numbers(values)
    fits = (
        _is_within(seconds, _LAST_DURATION_S)
        & _is_within(nanos, _NANOS - 1)
        & ((seconds == 0) | (nanos * np.sign(seconds) >= 0))
    )
    bad = {
        row: f"{name} has {seconds[row]} seconds and {nanos[row]} nanos: a Duration has {_LAST_DURATION_S} s, "
        "999999999 ns and one sign"
        for row in np.flatnonzero(is_valid & ~fits).tolist()
    }
    whole = pa.array(np.where(fits, seconds, 0)).cast(pa.decimal128(28, 9))
    parts = pa.array(np.where(fits, nanos, 0)).cast(pa.decimal128(19, 0))
    fractions = pa.Array.from_buffers(pa.decimal128(19, 9), len(parts), parts.buffers())
    made = pc.add(whole, fractions).cast(_SECONDS)
    return _Found(pc.if_else(pa.array(is_valid & fits), made, pa.scalar(None, _SECONDS)), bad)


def _json_texts(values: pa.Array, kind: Descriptor, name: str) -> _Found:
    from google.protobuf import json_format, struct_pb2
    from google.protobuf.message import DecodeError

    made_of = getattr(struct_pb2, kind.name)
    texts: list[str | None] = []
    bad = {}
    for row, data in enumerate(values.to_pylist()):
        texts.append(None)
        if data is None:
            continue
        try:
            found = json_format.MessageToDict(made_of.FromString(data))
            texts[row] = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (ValueError, DecodeError, json_format.SerializeToJsonError, RecursionError) as error:
            bad[row] = f"{name} is not JSON as a {kind.name} has: {str(error).partition(chr(10))[0]}"
    return _Found(pa.array(texts, pa.string()), bad)


# ---- types


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
