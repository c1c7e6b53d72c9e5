"""Options that several commands about records share.

`SchemaRegistry`, `ValueSchemaFile`, `MessageName`: name the schema of values, in the commands that decode values into
columns.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ...client.properties import REGISTRY_URL, REGISTRY_VARIABLE
from ...records.formats import Form
from ..client.value_completion import complete_topic

TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topic)]

KeyFormatOption = Annotated[Form, typer.Option("--key-format")]

ValueFormatOption = Annotated[Form, typer.Option("--value-format")]

SchemaRegistryOption = Annotated[
    str | None,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        help="for avro, protobuf and json with schema ids; `produce` uses the newest schema of TOPIC-value "
        f"(default: {REGISTRY_URL} of the properties, or {REGISTRY_VARIABLE})",
    ),
]

KeySchemaOption = Annotated[Path | None, typer.Option("--key-schema", metavar="FILE", help=".avsc, .proto or .desc")]

ValueSchemaOption = Annotated[
    Path | None, typer.Option("--value-schema", metavar="FILE", help=".avsc, .proto or .desc")
]

MessageOption = Annotated[
    str | None, typer.Option("--message", metavar="NAME", help="Protobuf message type (default: the file's first)")
]

SchemaRegistry = Annotated[
    str | None,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        help=f"registry with the schemas of values (default for avro and protobuf: {REGISTRY_URL}, {REGISTRY_VARIABLE})",
    ),
]
ValueSchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--value-schema", metavar="FILE", help="JSON Schema, .avsc, .proto or .desc; `infer`: by JSON values themselves"
    ),
]
MessageName = Annotated[str | None, typer.Option("--message", metavar="NAME", help="Protobuf message type")]


class Isolation(StrEnum):
    read_committed = "read_committed"
    read_uncommitted = "read_uncommitted"


IsolationLevel = Annotated[Isolation, typer.Option("--isolation-level")]
