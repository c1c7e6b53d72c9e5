"""The check whether columns of Arrow can be written as a Protobuf message: by their types, before any value.

A type fits where each of its values has the same meaning in the message, or is an error of the encoder. Durations, values of
JSON (Struct, Value, ListValue), Any and field masks are never written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from .arrow_kinds import is_bytes, is_double, is_list, is_moment, is_small_float, is_text
from .misfit import Misfit
from .protobuf_well_known import TIMESTAMP, Descriptor

_PACKAGE = "google.protobuf."
_FITS: Mapping[str, Callable[[pa.DataType], bool]] = {
    "bool": pa.types.is_boolean,
    "string": is_text,
    "bytes": is_bytes,
    "float": is_small_float,
    "double": is_double,
    "enum": lambda kind: is_text(kind) or pa.types.is_integer(kind),
    # A group of proto2.
    "message": lambda kind: False,
    **dict.fromkeys(("int32", "int64", "uint32", "uint64"), pa.types.is_integer),
}
#: The fields named `value` of these have the value.
_WRAPPERS = {
    f"{_PACKAGE}{name}Value"
    for name in ("Bool", "String", "Bytes", "Float", "Double", "Int32", "Int64", "UInt32", "UInt64")
}


def check_protobuf(kind: pa.DataType, message: Descriptor, name: str) -> None:
    """Raises Misfit for columns that are no fields of the message, and for those of other types."""
    if not pa.types.is_struct(kind):
        raise Misfit(f"the column {name} is {kind}, and the schema has the message {message.full_name}")
    repeated = _repeated_fields(message)
    for column in kind:
        path = f"{name}.{column.name}"
        field = message.fields_by_name.get(column.name)
        if field is None:
            names = ", ".join(message.fields_by_name)
            raise Misfit(f"the message {message.full_name} has no field for the column {path}; it has {names}")
        if pa.types.is_null(column.type):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _check_map(column.type, field.message_type, path)
        elif column.name not in repeated:
            _check_one(column.type, field, path)
        elif is_list(column.type):
            _check_one(column.type.value_type, field, f"{path}[]")
        else:
            raise Misfit(f"the column {path} is {column.type}, and the schema has a repeated field")


def _repeated_fields(message: Descriptor) -> set[str]:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

    described = DescriptorProto()
    message.CopyToProto(described)
    return {one.name for one in described.field if one.label == FieldDescriptorProto.LABEL_REPEATED}


def _check_map(kind: pa.DataType, entry: Descriptor, name: str) -> None:
    if not pa.types.is_map(kind):
        raise Misfit(f"the column {name} is {kind}, and the schema has a map")
    # Keys of JSON are texts: those of bool would be True and False, as Python has them.
    _check_one(kind.key_type, entry.fields_by_name["key"], f"{name}{{}}")
    _check_one(kind.item_type, entry.fields_by_name["value"], f"{name}{{}}")


def _check_one(kind: pa.DataType, field: Descriptor, name: str) -> None:
    message = field.message_type
    if message is None:
        _check_plain(kind, field, name)
    elif message.full_name == TIMESTAMP:
        if not is_moment(kind):
            raise Misfit(f"the column {name} is {kind}, and the schema has a Timestamp, which has a time zone")
    elif message.full_name in _WRAPPERS:
        _check_plain(kind, message.fields_by_name["value"], name)
    elif message.full_name.startswith(_PACKAGE):
        raise Misfit(f"the column {name} is a {message.full_name} in the schema, which cannot be written")
    else:
        check_protobuf(kind, message, name)


def _check_plain(kind: pa.DataType, field: Descriptor, name: str) -> None:
    found = _kind_of(field)
    if not _FITS[found](kind):
        raise Misfit(f"the column {name} is {kind}, and the schema has {found}")


def _kind_of(field: Descriptor) -> str:
    kinds = {
        field.CPPTYPE_BOOL: "bool", field.CPPTYPE_FLOAT: "float", field.CPPTYPE_DOUBLE: "double",
        field.CPPTYPE_INT32: "int32", field.CPPTYPE_INT64: "int64", field.CPPTYPE_UINT32: "uint32",
        field.CPPTYPE_UINT64: "uint64", field.CPPTYPE_ENUM: "enum", field.CPPTYPE_STRING: "string",
    }  # fmt: skip
    return "bytes" if field.type == field.TYPE_BYTES else kinds.get(field.cpp_type, "message")
