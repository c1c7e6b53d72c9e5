"""The options of commands that say what the values of a topic are, and how its records become rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..admin.connection import Connection
from ..columns import INFER, ValueSchema
from .column_types import Times


class Form(StrEnum):
    raw = "raw"
    json = "json"
    avro = "avro"
    protobuf = "protobuf"


ValueFormat = Annotated[Form, typer.Option("--value-format", help="bytes or typed columns")]
TimesForm = Annotated[
    Times,
    typer.Option("--times", help="times of nanoseconds and times of day: cut and `time`, or as numbers"),
]
SkipUnreadable = Annotated[
    bool,
    typer.Option("--skip-unreadable", help="continue after damaged and deleted records, with a dead-letter record"),
]


def chosen_values(
    connection: Connection, form: Form, schema: Path | None, registry: str | None, message: str | None
) -> ValueSchema | None:
    """The schema of values; None for raw ones."""
    if form is Form.raw:
        return None
    return ValueSchema.of_options(connection, form.value, _place(schema), registry, message)


def _place(schema: Path | None) -> Path | None:
    """A file's place, whatever folder is current later; INFER is no file."""
    return schema if schema is None or str(schema) == INFER else schema.absolute()
