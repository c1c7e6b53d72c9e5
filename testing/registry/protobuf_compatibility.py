"""Whether Protobuf messages of one file can be read with another, by the rules of Confluent's registry.

Fields may come and go and change their names. A message may not go, a field of a number keeps its kind of encoding,
fields do not leave a oneof, and at most one moves into one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

#: Scalars within one of these are the same on the wire.
_SAME_ENCODING = (
    {Field.TYPE_INT32, Field.TYPE_UINT32, Field.TYPE_INT64, Field.TYPE_UINT64, Field.TYPE_BOOL},
    {Field.TYPE_SINT32, Field.TYPE_SINT64},
    {Field.TYPE_FIXED32, Field.TYPE_SFIXED32},
    {Field.TYPE_FIXED64, Field.TYPE_SFIXED64},
    {Field.TYPE_STRING, Field.TYPE_BYTES},
)
_MESSAGES = (Field.TYPE_MESSAGE, Field.TYPE_GROUP)


def differences(reader: FileDescriptorProto, writer: FileDescriptorProto) -> list[str]:
    """Returns why a reader with one file cannot read messages of another. Both are FileDescriptorProtos."""
    found: list[str] = []
    _compare_messages(reader.message_type, writer.message_type, "#", (_package(reader), _package(writer)), found)
    return found


def _package(file: FileDescriptorProto) -> str:
    return f".{file.package}." if file.package else "."


def _compare_messages(
    now: Iterable[DescriptorProto],
    before: Iterable[DescriptorProto],
    path: str,
    packages: tuple[str, str],
    differences: list[str],
) -> None:
    by_name = {one.name: one for one in now}
    for old in before:
        where = f"{path}/{old.name}"
        if old.name not in by_name:
            _add(differences, "MESSAGE_REMOVED", where)
            continue
        new = by_name[old.name]
        _compare_fields(new, old, where, packages, differences)
        _compare_messages(new.nested_type, old.nested_type, where, packages, differences)


def _compare_fields(
    new: DescriptorProto, old: DescriptorProto, path: str, packages: tuple[str, str], differences: list[str]
) -> None:
    fields, old_fields = {one.number: one for one in new.field}, {one.number: one for one in old.field}
    for number, one in sorted(old_fields.items()):
        where = f"{path}/{number}"
        if number in fields:
            _compare_field(fields[number], one, where, packages, differences)
        elif one.label == Field.LABEL_REQUIRED:
            _add(differences, "REQUIRED_FIELD_REMOVED", where)
        elif _oneof(old, one) is not None and _oneof(old, one) in {each.name for each in new.oneof_decl}:
            _add(differences, "ONEOF_FIELD_REMOVED", where)
    for number, one in sorted(fields.items()):
        if number not in old_fields and one.label == Field.LABEL_REQUIRED:
            _add(differences, "REQUIRED_FIELD_ADDED", f"{path}/{number}")
    moved: dict[str, int] = {}
    for number, one in fields.items():
        name = _oneof(new, one)
        if name is not None and number in old_fields and _oneof(old, old_fields[number]) is None:
            moved[name] = moved.get(name, 0) + 1
    for name, count in moved.items():
        if count > 1:
            _add(differences, "MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}")


def _compare_field(new: Field, old: Field, path: str, packages: tuple[str, str], differences: list[str]) -> None:
    if _kind(new) != _kind(old):
        _add(differences, "FIELD_KIND_CHANGED", path)
    elif new.type in (*_MESSAGES, Field.TYPE_ENUM):
        if new.type in _MESSAGES and _relative(new.type_name, packages[0]) != _relative(old.type_name, packages[1]):
            _add(differences, "FIELD_NAMED_TYPE_CHANGED", path)
    elif new.type != old.type and not any(new.type in same and old.type in same for same in _SAME_ENCODING):
        _add(differences, "FIELD_SCALAR_KIND_CHANGED", path)
    is_text = new.type in (Field.TYPE_STRING, Field.TYPE_BYTES, *_MESSAGES)
    repeated = Field.LABEL_REPEATED
    if not is_text and (new.label == repeated) != (old.label == repeated):
        _add(differences, "FIELD_NUMERIC_LABEL_CHANGED", path)
    if new.label == Field.LABEL_REQUIRED != old.label:
        _add(differences, "REQUIRED_FIELD_ADDED", path)


def _kind(field: Field) -> str:
    if field.type in _MESSAGES:
        return "message"
    return "enum" if field.type == Field.TYPE_ENUM else "scalar"


def _relative(name: str, package: str) -> str:
    return str(name).removeprefix(package)


def _oneof(message: DescriptorProto, field: Field) -> str | None:
    """Returns the name of the oneof that a field is in. The one that stands for `optional` is none."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return str(message.oneof_decl[field.oneof_index].name)


def _add(differences: list[str], kind: str, path: str) -> None:
    differences.append(f'{{errorType:"{kind}", description:"at path \'{path}\'"}}')
