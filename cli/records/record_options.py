"""Options that several commands about records share.

`SchemaRegistry`, `ValueSchemaFile`, `MessageName`: name the schema of values, in the commands that decode values into
columns.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..client.options import complete_topic
from .formats import Form


class Isolation(StrEnum):
    read_committed = "read_committed"
    read_uncommitted = "read_uncommitted"


TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topic)]


KeyFormatOption = Annotated[Form, typer.Option("--key-format")]

ValueFormatOption = Annotated[Form, typer.Option("--value-format")]

SchemaRegistryOption = Annotated[
    str | None,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        help="for avro, protobuf and json with schema ids; `produce` uses the newest schema of TOPIC-value",
    ),
]

KeySchemaOption = Annotated[Path | None, typer.Option("--key-schema", metavar="FILE", help=".avsc, .proto or .desc")]

ValueSchemaOption = Annotated[
    Path | None, typer.Option("--value-schema", metavar="FILE", help=".avsc, .proto or .desc")
]

MessageOption = Annotated[
    str | None, typer.Option("--message", metavar="NAME", help="Protobuf message type (default: the file's first)")
]


# ---- schemas of values

SchemaRegistry = Annotated[
    str | None, typer.Option("--schema-registry", metavar="URL", help="registry with the schemas of values")
]
ValueSchemaFile = Annotated[
    Path | None,
    typer.Option("--value-schema", metavar="FILE", help="JSON Schema, .avsc, .proto or .desc, for all topics"),
]
MessageName = Annotated[str | None, typer.Option("--message", metavar="NAME", help="Protobuf message type")]
