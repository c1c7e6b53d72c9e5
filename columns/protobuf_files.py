"""The files of a Protobuf message, as ptars gets them.

ptars takes times as nanoseconds, which do not fit 64 bits, and other well-known types by their inner fields. So it gets the
files of a message with other types in these places: a Timestamp and a Duration as their two numbers, JSON (`Struct`,
`Value`, `ListValue`) and messages without a field as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from .protobuf_normal_form import without_groups, written_again
from .protobuf_well_known import DURATION, JSON_TYPES, TIMESTAMP, Descriptor

#: Messages of descriptor.proto, which has no types.
Proto: TypeAlias = Any
_OUR_FILE, _OUR_PACKAGE = "odradek/times.proto", "odradek.times"


class ProtobufFiles:
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
