"""Schemas as the registry holds them: parsed, comparable, and with a check whether one reads what another wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
KINDS = (AVRO, JSON, PROTOBUF)


@dataclass(frozen=True, slots=True)
class Reference:
    """Names a version of a subject. `name`: an Avro type, a JSON Schema's `$ref` or a .proto file."""

    name: str
    subject: str
    version: int

    def shown(self) -> dict[str, str | int]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as it comes and goes. `inner`: the texts of its references and of theirs, by name, inner ones first."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    inner: dict[str, str] = field(default_factory=dict)


class Parsed(Protocol):
    """A schema of one kind."""

    @property
    def text(self) -> str:
        """The schema as responses show it."""

    @property
    def identity(self) -> str:
        """Equal for schemas that are the same but for spaces and the order of keys."""

    def cannot_read(self, writer: Parsed) -> list[str]:
        """Returns why a reader with this schema cannot read what `writer`, of the same kind, wrote; nothing if it can."""

    def formatted(self, form: str) -> str:
        """Returns the text in a format: "serialized" is base64 of a Protobuf descriptor."""
