"""The files of a Protobuf message, as ptars gets them.

ptars takes times as nanoseconds, which do not fit 64 bits, and other well-known types by their inner fields. So it gets the
files of a message with other types in these places: a Timestamp and a Duration as their two numbers, JSON (`Struct`,
`Value`, `ListValue`) and messages without a field as bytes. Fields have their numbers for names where names are too much
alike. Enums are their numbers, so that those of proto2, which have
no others than the named ones, lose none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from .errors import InvalidScan
from .protobuf_normal_form import without_groups, written_again
from .protobuf_well_known import DURATION, JSON_TYPES, TIMESTAMP, Descriptor, has_like_names

#: Messages of descriptor.proto, which has no types.
Proto: TypeAlias = Any
_OUR_FILE, _OUR_PACKAGE = "odradek/times.proto", "odradek.times"


class ProtobufFiles:
    """The files of a message with other types for the fields that ptars is not to read. Raises InvalidScan for files with an
    edition, at which ptars panics.
    """

    def __init__(self, message: Descriptor) -> None:
        self._message = message
        self._protos: dict[str, Proto] = {}
        self._has_groups = self._has_maps = False
        self._collect(message.file)
        for one in self._own():
            for inner in one.message_type:
                _number_enums(inner)
        self._numbered = self._in_pool(self._protos.values())

    def _own(self) -> list[Proto]:
        return [one for one in self._protos.values() if not one.name.startswith("google/protobuf/")]

    def _in_pool(self, protos: Iterable[Proto]) -> Descriptor:
        """The descriptor of the message in a pool of its own."""
        from google.protobuf.descriptor_pool import DescriptorPool

        pool = DescriptorPool()
        for proto in protos:
            pool.AddSerializedFile(proto.SerializeToString())
        return pool.FindMessageTypeByName(self._message.full_name)

    def _collect(self, file: Descriptor) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        if file.name in self._protos:
            return
        for one in file.dependencies:
            self._collect(one)
        proto = FileDescriptorProto()
        file.CopyToProto(proto)
        if proto.syntax == "editions":
            raise InvalidScan(f"{file.name} has an edition of Protobuf; columns need syntax = proto2 or proto3")
        self._protos[file.name] = proto

    def replaced(self) -> Descriptor:
        """The descriptor of the message with the other types."""
        for proto in self._own():
            proto.dependency.append(_OUR_FILE)
            for one in proto.message_type:
                self._replace_in(one, proto.syntax)
        return self._in_pool((_times_file(), *self._protos.values()))

    def _replace_in(self, proto: Proto, syntax: str) -> None:
        for one in proto.nested_type:
            self._replace_in(one, syntax)
        if has_like_names(proto.field):
            for field in proto.field:
                field.name = f"f{field.number}"
                field.ClearField("json_name")
        for field in proto.field:
            self._has_maps |= proto.options.map_entry
            name = field.type_name.lstrip(".")
            if field.type == field.TYPE_GROUP:
                field.type = field.TYPE_MESSAGE
                self._has_groups = True
            if field.type != field.TYPE_MESSAGE:
                continue
            if name in (TIMESTAMP, DURATION):
                field.type_name = f".{_OUR_PACKAGE}.{name.rpartition('.')[2]}"
            elif name in JSON_TYPES or not self._has_fields(name):
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
        """A function that returns the bytes of a message in the form that ptars reads; and whether all messages need it."""
        from google.protobuf.message_factory import GetMessageClass

        change = without_groups if self._has_groups else written_again
        return partial(change, GetMessageClass(self._numbered)), self._has_groups or self._has_maps


def _number_enums(proto: Proto) -> None:
    """Replaces the enums of a message and its inner ones by their numbers."""
    for one in proto.nested_type:
        _number_enums(one)
    for field in proto.field:
        if field.type == field.TYPE_ENUM:
            field.type = field.TYPE_INT32
            field.ClearField("type_name")
            field.ClearField("default_value")


def _times_file() -> Proto:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    made = FileDescriptorProto(name=_OUR_FILE, package=_OUR_PACKAGE, syntax="proto3")
    for name in (TIMESTAMP, DURATION):
        message = made.message_type.add(name=name.rpartition(".")[2])
        for number, (field, kind) in enumerate((("seconds", Field.TYPE_INT64), ("nanos", Field.TYPE_INT32)), 1):
            message.field.add(name=field, number=number, type=kind, label=Field.LABEL_OPTIONAL)
    return made
