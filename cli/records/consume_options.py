"""Options of `odradek consume`, and the options for schemas of values that other commands share.

- `TopicsArgument` to `MessageOption`: the options of `odradek consume`.
- `SchemaRegistry`, `ValueSchemaFile`, `MessageName`: name the schema of values, in the commands that decode values
  into columns.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..client.completing import complete_topic
from .decoding import Form

# ---- `odradek consume`

RecordFormat = StrEnum("RecordFormat", ["table", "json", "jsonl", "csv", "plain", "parquet"])


class Isolation(StrEnum):
    read_committed = "read_committed"
    read_uncommitted = "read_uncommitted"


TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topic)]

FromBeginningOption = Annotated[bool, typer.Option("--from-beginning", help="the same as -o beginning")]

RegexOption = Annotated[
    bool,
    typer.Option("--regex", "-r", help="TOPIC is a regular expression: read the topics whose whole name matches"),
]

OffsetOption = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--offset",
        metavar="POSITION",
        help="beginning, end, stored, N, -N (the last N of each partition), @TIME (ms or ISO 8601), -1h",
    ),
]

UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="POSITION", help="stop before this offset or @TIME")
]

FollowOption = Annotated[bool, typer.Option("--follow", "-F", help="at the end, wait for new records")]

CountOption = Annotated[int | None, typer.Option("--count", "-c", "-n", metavar="N", help="stop after N records")]

PartitionOption = Annotated[
    list[int] | None, typer.Option("--partition", "-p", help="only this partition; may be repeated")
]

GroupOption = Annotated[
    str | None, typer.Option("--group", "-g", help="read as a member of a group, and commit offsets")
]

IsolationLevelOption = Annotated[Isolation, typer.Option("--isolation-level")]

OutputFormatOption = Annotated[
    RecordFormat | None, typer.Option("--output", help="output format (default: plain, one value per line)")
]

FormatStringOption = Annotated[
    str | None,
    typer.Option("-f", "--format", metavar="FORMAT", help="format string, as kcat's -f: %t %p %o %k %s %T %h ..."),
]

FileOption = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="write to this file instead of standard output")
]

KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="REGEX", help="only records whose key matches; plain text must be the whole key"),
]

ValueOption = Annotated[str | None, typer.Option("--value", metavar="REGEX", help="only records whose value matches")]

HeaderOption = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME[=REGEX]", help="only records with this header")
]

WhereOption = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="JSONPATH", help="only JSON values that match, such as '@.total > 10'"),
]

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
