"""Options that name the schema of values, of the commands that decode them into columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SchemaRegistry = Annotated[
    str | None, typer.Option("--schema-registry", metavar="URL", help="registry with the schemas of values")
]
ValueSchemaFile = Annotated[
    Path | None,
    typer.Option("--value-schema", metavar="FILE", help="JSON Schema, .avsc, .proto or .desc, for all topics"),
]
MessageName = Annotated[str | None, typer.Option("--message", metavar="NAME", help="Protobuf message type")]
