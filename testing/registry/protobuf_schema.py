"""Protobuf schemas: .proto texts, compiled by `grpcio-tools`, and descriptors in base64, which confluent-kafka sends."""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib.resources
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import grpc_tools
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from grpc_tools import protoc

from .errors import invalid_schema
from .protobuf_compatibility import differences
from .protobuf_text import proto_text

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from .schemas import Parsed, SchemaText

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
