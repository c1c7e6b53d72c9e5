"""Values decoded with a schema of Protobuf (`odradek[decoding]`); grpcio-tools compiles .proto texts."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.reasons import reason_of
from ..client.user_errors import Misused
from .kept_schemas import KeptSchemas
from .schema_registry import Schema, SchemaRegistry, framed

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

    from .contents import Content

#: Levels of messages within messages that an index path may have.
_MOST_LEVELS = 32
_COMPILER_TIMEOUT_S = 30


def protobuf_from_file(path: Path, message: str | None) -> Callable[[bytes], Content]:
    """Values without a schema's id. The file is a .proto text or a descriptor set (`protoc -o`)."""
    chosen = message_of_file(path, message)
    return lambda data: _decoded(chosen, data)


def message_of_file(path: Path, message: str | None) -> Descriptor:
    """The descriptor of a message of a file: of the first for None. Raises Misused."""
    if path.suffix == ".proto":
        files = _compiled(path.name, {path.name: _text(path)}, include=path.parent)
    else:
        files = _descriptor_set(path.read_bytes() if path.is_file() else b"", path)
    pool, last = _pool(files)
    return _message_named(pool, last, message)


def message_of_schema(schema: Schema, message: str | None) -> Descriptor:
    """The descriptor of a message of a registry's schema: of the first for None. Raises Misused."""
    if schema.kind != "PROTOBUF":
        raise Misused(f"the registry's schema is {schema.kind}, not PROTOBUF")
    pool, file = _pool(_compiled("schema.proto", {"schema.proto": schema.text, **schema.references}))
    return _message_named(pool, file, message)


def index_path(message: Descriptor) -> bytes:
    """Returns the indexes of a message in its file, as a schema registry's serializer writes them before a value."""
    path: list[int] = []
    while message is not None:
        outer = message.containing_type
        siblings = message.file.message_types_by_name if outer is None else outer.nested_types_by_name
        path.insert(0, list(siblings).index(message.name))
        message = outer
    return b"\0" if path == [0] else b"".join(_zigzag(number) for number in (len(path), *path))


def _zigzag(number: int) -> bytes:
    raw, made = number << 1, bytearray()
    while raw >= 0x80:
        made.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes((*made, raw))


def protobuf_from_registry(registry: SchemaRegistry) -> Callable[[bytes], Content]:
    message_of = message_of_value(registry)
    return lambda data: _decoded(*message_of(data))


def message_of_value(registry: SchemaRegistry) -> Callable[[bytes], tuple[Descriptor, bytes]]:
    """A function that returns the descriptor of a value's message, and its bytes. It raises ValueError, IndexError."""
    compiled = KeptSchemas(registry, _Messages)

    def of_value(data: bytes) -> tuple[Descriptor, bytes]:
        schema_id, rest = framed(data)
        path, rest = _index_path(rest)
        return compiled.get(schema_id).at(path), rest

    return of_value


class _Messages:
    """The messages of a registry's schema by their index paths. Raises ValueError and Misused for one of no messages."""

    def __init__(self, schema: Schema) -> None:
        if schema.kind != "PROTOBUF":
            raise ValueError(f"its schema is {schema.kind[:40]}")
        self._files = _compiled("schema.proto", {"schema.proto": schema.text, **schema.references})
        self._pool, self._file = _pool(self._files)
        self._known: dict[tuple[int, ...], Descriptor] = {}

    def at(self, path: tuple[int, ...]) -> Descriptor:
        """Raises ValueError for a path to no message."""
        if path not in self._known:
            self._known[path] = self._found(path)
        return self._known[path]

    def _found(self, path: tuple[int, ...]) -> Descriptor:
        described = next(one for one in self._files.file if one.name == self._file.name)
        names, level = [], described.message_type
        for index in path:
            if not 0 <= index < len(level):
                raise ValueError("its message index names no message")
            names.append(level[index].name)
            level = level[index].nested_type
        full = ".".join([*([described.package] if described.package else []), *names])
        return self._pool.FindMessageTypeByName(full)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Misused(f"cannot read {path}: {reason_of(error)}") from None


def _index_path(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The message's place in its file: a count and indexes as zigzag varints; a single zero means the first message."""
    count, position = _varint(data, 0)
    if count == 0:
        return (0,), data[position:]
    if not 0 < count <= _MOST_LEVELS:
        raise ValueError("its message index is damaged")
    found = []
    for _ in range(count):
        index, position = _varint(data, position)
        found.append(index)
    return tuple(found), data[position:]


def _varint(data: bytes, position: int) -> tuple[int, int]:
    raw = shift = 0
    while shift < 64:
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    raise ValueError("its message index is damaged")


def _compiled(name: str, texts: dict[str, str], include: Path | None = None) -> FileDescriptorSet:
    """A FileDescriptorSet of .proto texts. Raises Misused with the compiler's first line."""
    import importlib.resources
    import subprocess
    import sys

    import grpc_tools

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for one, text in texts.items():
            _write_text(root, one, text)
        made = root / ".descriptors"
        well_known = str(importlib.resources.files(grpc_tools) / "_proto")
        paths = [f"-I{folder}", *([f"-I{include.resolve()}"] if include is not None else []), f"-I{well_known}"]
        command = [sys.executable, "-m", "grpc_tools.protoc", *paths, "--include_imports", f"-o{made}", name]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_COMPILER_TIMEOUT_S,
                cwd=folder,  # in the current folder the compiler would take a file of this name for the input
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Misused(f"{name} is not compiled within {_COMPILER_TIMEOUT_S} s") from None
        if done.returncode:
            line = (done.stderr.strip() or "no reason given").splitlines()[0]
            raise Misused(f"{name} is not a Protobuf schema: {line}")
        return _descriptor_set(made.read_bytes(), Path(name))


def _write_text(root: Path, name: str, text: str) -> None:
    """Raises Misused for a name that is none of a file in the folder."""
    try:
        place = (root / name).resolve()
        if not place.is_relative_to(root.resolve()):
            raise Misused(f"a schema imports {name[:100]!r}, which is outside its folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Misused(f"a schema imports {name[:100]!r}: {error}") from None


def _descriptor_set(data: bytes, path: Path) -> FileDescriptorSet:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        found = FileDescriptorSet.FromString(data)
    except DecodeError:
        found = FileDescriptorSet()
    if not found.file:
        raise Misused(f"{path} is neither a .proto file nor a descriptor set of `protoc --include_imports -o FILE`")
    return found


def _pool(files: FileDescriptorSet) -> tuple[DescriptorPool, FileDescriptor]:
    """A pool of all files, and the last one: protoc writes the file that was asked for last."""
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    try:
        for one in files.file:
            pool.Add(one) if hasattr(pool, "Add") else pool.AddSerializedFile(one.SerializeToString())
    except TypeError as error:
        raise Misused(f"{files.file[-1].name} is not a Protobuf schema: {error}") from None
    return pool, pool.FindFileByName(files.file[-1].name)


def _message_named(pool: DescriptorPool, file: FileDescriptor, name: str | None) -> Descriptor:
    if name is None:
        if not file.message_types_by_name:
            raise Misused(f"{file.name} has no message")
        return next(iter(file.message_types_by_name.values()))
    for full in (name, f"{file.package}.{name}" if file.package else name):
        try:
            return pool.FindMessageTypeByName(full)
        except KeyError:
            continue
    raise Misused(f"there is no message {name}: {', '.join(file.message_types_by_name) or 'the file has none'}")


def _decoded(message: Descriptor, data: bytes) -> Content:
    from google.protobuf import json_format, message_factory
    from google.protobuf.message import DecodeError

    made = message_factory.GetMessageClass(message)()
    try:
        made.ParseFromString(data)
        _check_texts(made, "")
        return json_format.MessageToDict(made, preserving_proto_field_name=True, descriptor_pool=message.file.pool)
    except (DecodeError, json_format.SerializeToJsonError, TypeError) as error:  # TypeError: an Any of an unknown type
        raise ValueError(str(error)) from None
    except SystemError:  # upb, for a map of proto2 whose texts are no UTF-8
        raise ValueError("a text of a map is not UTF-8") from None


def _check_texts(message: Message, path: str) -> None:
    """Raises ValueError for a text of proto2 that is not UTF-8: protobuf has its bytes in place of it, and JSON of protobuf
    the text of those that a field of bytes would have.
    """
    from google.protobuf.message import Message

    for field, value in message.ListFields():
        name, kind = f"{path}{field.name}", field.message_type
        # FieldDescriptor has `is_repeated` from protobuf 6.31 on, and no `label` any more later.
        values = [value] if isinstance(value, (Message, str, bytes, int, float)) else list(value)
        if kind is not None and kind.GetOptions().map_entry:
            entry = kind.fields_by_name
            if entry["key"].type == field.TYPE_STRING:
                _check_utf8(values, name)
            field, kind = entry["value"], entry["value"].message_type
            values = [value[key] for key in values] if kind is not None or field.type == field.TYPE_STRING else []
        if kind is not None:
            for one in values:
                _check_texts(one, f"{name}.")
        elif field.type == field.TYPE_STRING:
            _check_utf8(values, name)


def _check_utf8(values: list[object], name: str) -> None:
    if any(isinstance(one, bytes) for one in values):
        raise ValueError(f"{name} is not UTF-8")
