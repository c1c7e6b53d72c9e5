"""Protobuf schemas: .proto texts, compiled by `grpcio-tools`, and descriptors in base64, which confluent-kafka sends."""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib.resources
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import grpc_tools
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.message import DecodeError
from grpc_tools import protoc

from .schemas import Parsed, SchemaText, invalid_schema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto


# The .proto text of a file descriptor: what was registered in base64 is shown so. Options other than these are left
# out: packed, deprecated, json_name, allow_alias, map_entry; services and extensions, too.


_INDENT = "  "
_MOST_NUMBER = 536_870_911


def proto_text(file: FileDescriptorProto) -> str:
    """Returns the text of a FileDescriptorProto."""
    syntax = file.syntax or "proto2"
    lines = [f'edition = "{_edition(file)}";' if syntax == "editions" else f'syntax = "{syntax}";']
    if file.package:
        lines.append(f"package {file.package};")
    public = set(file.public_dependency)
    lines += [f'import {"public " if index in public else ""}"{name}";' for index, name in enumerate(file.dependency)]
    for one in file.enum_type:
        lines += ["", *_enum(one)]
    for one in file.message_type:
        lines += ["", *_message(one, syntax)]
    return "\n".join(lines) + "\n"


def _edition(file: FileDescriptorProto) -> int:
    return 2023 if file.edition == 1000 else 2024


def _message(message: DescriptorProto, syntax: str) -> Iterator[str]:
    yield f"message {message.name} {{"
    maps = {one.name: one for one in message.nested_type if one.options.map_entry}
    in_oneof: dict[int, list[Field]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            in_oneof.setdefault(field.oneof_index, []).append(field)
        else:
            yield from _indented([_field(field, maps, syntax)])
    for index, fields in in_oneof.items():
        inner = [_INDENT + _field(one, maps, syntax, is_bare=True) for one in fields]
        yield from _indented([f"oneof {message.oneof_decl[index].name} {{", *inner, "}"])
    if message.reserved_range:
        yield from _indented([f"reserved {', '.join(_range(one) for one in message.reserved_range)};"])
    if message.reserved_name:
        quoted = ", ".join(f'"{name}"' for name in message.reserved_name)
        yield from _indented([f"reserved {quoted};"])
    if message.extension_range:
        yield from _indented([f"extensions {', '.join(_range(one) for one in message.extension_range)};"])
    for enum in message.enum_type:
        yield from _indented(_enum(enum))
    for one in message.nested_type:
        if one.name not in maps:
            yield from _indented(_message(one, syntax))
    yield "}"


def _range(one: DescriptorProto.ReservedRange | DescriptorProto.ExtensionRange) -> str:
    """Returns a range of numbers; its end is one behind the last."""
    if one.end - 1 >= _MOST_NUMBER:
        return f"{one.start} to max"
    return str(one.start) if one.end - one.start == 1 else f"{one.start} to {one.end - 1}"


def _field(field: Field, maps: dict[str, DescriptorProto], syntax: str, *, is_bare: bool = False) -> str:
    entry = maps.get(field.type_name.rpartition(".")[2]) if field.type == Field.TYPE_MESSAGE else None
    if entry is not None:
        key, value = entry.field
        shown = f"map<{_type(key)}, {_type(value)}>"
    else:
        shown = _type(field)
        if field.label == Field.LABEL_REPEATED:
            shown = f"repeated {shown}"
        elif not is_bare and field.label == Field.LABEL_REQUIRED:
            shown = f"required {shown}"
        elif not is_bare and (field.proto3_optional or syntax == "proto2"):
            shown = f"optional {shown}"
    return f"{shown} {field.name} = {field.number}{_options(field)};"


def _type(field: Field) -> str:
    if field.type_name:
        return str(field.type_name)
    return str(Field.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _options(field: Field) -> str:
    found = []
    if field.HasField("default_value"):
        found.append(f"default = {_default(field)}")
    if field.HasField("json_name") and field.json_name != _json_name(field.name):
        found.append(f'json_name = "{field.json_name}"')
    found += [
        f"{name} = {str(getattr(field.options, name)).lower()}"
        for name in ("packed", "deprecated")
        if field.options.HasField(name)
    ]
    return f" [{', '.join(found)}]" if found else ""


def _default(field: Field) -> str:
    if field.type not in (Field.TYPE_STRING, Field.TYPE_BYTES):
        return str(field.default_value)
    escaped = field.default_value
    if field.type == Field.TYPE_STRING:  # that of bytes is escaped already
        escaped = escaped.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(one[:1].upper() + one[1:] for one in rest)


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    if enum.options.allow_alias:
        yield f"{_INDENT}option allow_alias = true;"
    for value in enum.value:
        yield f"{_INDENT}{value.name} = {value.number};"
    if enum.reserved_range:  # the end of an enum's range is the last number
        shown = [str(one.start) if one.start == one.end else f"{one.start} to {one.end}" for one in enum.reserved_range]
        yield f"{_INDENT}reserved {', '.join(shown)};"
    if enum.reserved_name:
        quoted = ", ".join(f'"{name}"' for name in enum.reserved_name)
        yield f"{_INDENT}reserved {quoted};"
    yield "}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield _INDENT + line


# Whether Protobuf messages of one file can be read with another, by the rules of Confluent's registry.
#
# Fields may come and go and change their names. A message may not go, a field of a number keeps its kind of encoding,
# fields do not leave a oneof, and at most one moves into one.


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
    found: list[str],
) -> None:
    by_name = {one.name: one for one in now}
    for old in before:
        where = f"{path}/{old.name}"
        if old.name not in by_name:
            _add(found, "MESSAGE_REMOVED", where)
            continue
        new = by_name[old.name]
        _compare_fields(new, old, where, packages, found)
        _compare_messages(new.nested_type, old.nested_type, where, packages, found)


def _compare_fields(
    new: DescriptorProto, old: DescriptorProto, path: str, packages: tuple[str, str], found: list[str]
) -> None:
    fields, old_fields = {one.number: one for one in new.field}, {one.number: one for one in old.field}
    for number, one in sorted(old_fields.items()):
        where = f"{path}/{number}"
        if number in fields:
            _compare_field(fields[number], one, where, packages, found)
        elif one.label == Field.LABEL_REQUIRED:
            _add(found, "REQUIRED_FIELD_REMOVED", where)
        elif _oneof(old, one) is not None and _oneof(old, one) in {each.name for each in new.oneof_decl}:
            _add(found, "ONEOF_FIELD_REMOVED", where)
    for number, one in sorted(fields.items()):
        if number not in old_fields and one.label == Field.LABEL_REQUIRED:
            _add(found, "REQUIRED_FIELD_ADDED", f"{path}/{number}")
    moved: dict[str, int] = {}
    for number, one in fields.items():
        name = _oneof(new, one)
        if name is not None and number in old_fields and _oneof(old, old_fields[number]) is None:
            moved[name] = moved.get(name, 0) + 1
    for name, count in moved.items():
        if count > 1:
            _add(found, "MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}")


def _compare_field(new: Field, old: Field, path: str, packages: tuple[str, str], found: list[str]) -> None:
    if _kind(new) != _kind(old):
        _add(found, "FIELD_KIND_CHANGED", path)
    elif new.type in (*_MESSAGES, Field.TYPE_ENUM):
        if new.type in _MESSAGES and _relative(new.type_name, packages[0]) != _relative(old.type_name, packages[1]):
            _add(found, "FIELD_NAMED_TYPE_CHANGED", path)
    elif new.type != old.type and not any(new.type in same and old.type in same for same in _SAME_ENCODING):
        _add(found, "FIELD_SCALAR_KIND_CHANGED", path)
    is_text = new.type in (Field.TYPE_STRING, Field.TYPE_BYTES, *_MESSAGES)
    repeated = Field.LABEL_REPEATED
    if not is_text and (new.label == repeated) != (old.label == repeated):
        _add(found, "FIELD_NUMERIC_LABEL_CHANGED", path)
    if new.label == Field.LABEL_REQUIRED != old.label:
        _add(found, "REQUIRED_FIELD_ADDED", path)


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


def _add(found: list[str], kind: str, path: str) -> None:
    found.append(f'{{errorType:"{kind}", description:"at path \'{path}\'"}}')


_COMPILER_TIMEOUT_S = 60
#: The name of a schema's own file, which no text has.
_OWN = "odradek_default.proto"


class ProtobufSchema:
    """One .proto file. The files that it imports are its references, but Google's own."""

    def __init__(self, schema: SchemaText) -> None:
        descriptor = _decoded(schema.text)
        if descriptor is None:
            descriptor = _compiled({**schema.inner, _OWN: schema.text})
            self.text = schema.text
        else:
            self.text = proto_text(descriptor)
            _compiled({**schema.inner, _OWN: self.text})  # a missing reference is an error now, not in a consumer
        self.descriptor = descriptor
        # The order of fields does not count, nor does a json_name that a compiler has filled in: a text has neither.
        rest = descriptor_pb2.FileDescriptorProto(
            service=descriptor.service, extension=descriptor.extension, options=descriptor.options
        )
        data = repr((proto_text(descriptor), rest.SerializeToString(deterministic=True), sorted(schema.inner.items())))
        self.identity = hashlib.sha256(data.encode()).hexdigest()

    def cannot_read(self, writer: Parsed) -> list[str]:
        assert isinstance(writer, ProtobufSchema)
        return differences(self.descriptor, writer.descriptor)

    def formatted(self, form: str) -> str:
        if form != "serialized":
            return self.text
        return base64.b64encode(self.descriptor.SerializeToString()).decode()


def _decoded(text: str) -> FileDescriptorProto | None:
    """Returns the descriptor of a text in base64; None for any other text."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    descriptor = descriptor_pb2.FileDescriptorProto()
    try:
        descriptor.ParseFromString(data)
    except DecodeError:
        raise invalid_schema("the text is base64, but not a file descriptor") from None
    return descriptor


def _compiled(texts: dict[str, str]) -> FileDescriptorProto:
    """Returns the descriptor of the schema's own file. Raises RegistryError with the compiler's words."""
    google = importlib.resources.files(grpc_tools) / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in texts.items():
            parts = PurePosixPath(name)
            if parts.is_absolute() or ".." in parts.parts or not name.endswith(".proto"):
                raise invalid_schema(f"{name!r} is not a name of a .proto file")
            place = root / parts
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        command = ["protoc", f"-I{root}", f"-I{google}", f"--descriptor_set_out={root / 'set'}", _OWN]
        if protoc.main(command):
            raise invalid_schema(_words(command[1:]))
        files = descriptor_pb2.FileDescriptorSet.FromString((root / "set").read_bytes())
    return files.file[-1]


def _words(arguments: list[str]) -> str:
    """Returns the compiler's messages about a schema that it rejected: within this process it writes to standard error."""
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILER_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"the compiler did not end within {_COMPILER_TIMEOUT_S} s"
    return done.stderr.strip()[:1000]
