"""Formats of keys and values (`--key-format`, `--value-format`): `consume` decodes them, `produce` encodes them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ..admin.connection import Connection

if TYPE_CHECKING:
    from .schema_registry import SchemaRegistry


class Form(StrEnum):
    text = "text"
    json = "json"
    hex = "hex"
    base64 = "base64"
    int32 = "int32"
    int64 = "int64"
    float = "float"
    double = "double"
    avro = "avro"
    protobuf = "protobuf"


@dataclass(frozen=True, slots=True)
class Coding:
    form: Form
    registry: str | None = None
    schema: Path | None = None
    message: str | None = None

    @classmethod
    def of_options(
        cls, connection: Connection, form: Form, registry: str | None, schema: Path | None, message: str | None
    ) -> Coding:
        """The registry is also that of the connection's properties or of the environment, without a file of the schema."""
        return cls(form, connection.registry_url(registry, schema), schema, message)


NUMBERS = {Form.int32: ">i", Form.int64: ">q", Form.float: ">f", Form.double: ">d"}


def registry_of(coding: Coding, connection: Connection) -> SchemaRegistry:
    # The HTTP client of a registry takes 12 ms to load.
    from .schema_registry import SchemaRegistry

    assert coding.registry is not None
    return SchemaRegistry(coding.registry, connection.registry_user_info)
