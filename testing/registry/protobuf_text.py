"""The .proto text of a file descriptor: what was registered in base64 is shown so.

Options other than these are left out: packed, deprecated, json_name, allow_alias, map_entry; services and extensions, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto

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


def _range(number_range: DescriptorProto.ReservedRange | DescriptorProto.ExtensionRange) -> str:
    """Returns a range of numbers; its end is one behind the last."""
    if number_range.end - 1 >= _MOST_NUMBER:
        return f"{number_range.start} to max"
    return (
        str(number_range.start)
        if number_range.end - number_range.start == 1
        else f"{number_range.start} to {number_range.end - 1}"
    )


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
