"""Options of `odradek produce`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..client.completing import complete_topic
from .inputs import InputForm

Compression = StrEnum("Compression", ["none", "gzip", "snappy", "lz4", "zstd"])

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)]

FilesArgument = Annotated[list[Path] | None, typer.Argument(metavar="[FILE...]", help="default: standard input")]

InputFormOption = Annotated[
    InputForm | None,
    typer.Option("--input", "-i", help="default: by the file's name, else lines; `file`: each file is one record"),
]

KeyOption = Annotated[str | None, typer.Option("--key", "-k", help="of every record")]

KeyDelimiterOption = Annotated[
    str | None, typer.Option("--key-delimiter", "-K", metavar="TEXT", help="lines are key, this text, value")
]

DelimiterOption = Annotated[str, typer.Option("--delimiter", "-D", metavar="TEXT", help="between records")]

NullValueOption = Annotated[
    str | None,
    typer.Option("--null", "-Z", metavar="TEXT", help="a line with this text has no value (a tombstone)"),
]

HeaderOption = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="of every record; may be repeated")
]

PartitionOption = Annotated[int | None, typer.Option("--partition", "-p", help="default: by the key, as Java clients")]

TimestampOption = Annotated[
    str | None, typer.Option("--timestamp", metavar="TIME", help="of every record: ms or ISO 8601 (default: now)")
]

KeyColumnOption = Annotated[str | None, typer.Option("--key-column", help="of CSV or Parquet")]

ValueColumnOption = Annotated[str | None, typer.Option("--value-column", help="default: the row as JSON")]

CountOption = Annotated[int | None, typer.Option("--count", "-c", metavar="N", help="stop after N records")]

RepeatOption = Annotated[bool, typer.Option("--repeat", help="begin again at the end of the input, until --count")]

RateOption = Annotated[float | None, typer.Option("--rate", metavar="N", help="records a second, at most")]

TransactionalOption = Annotated[bool, typer.Option("--transactional", help="all records in one transaction")]

TransactionalIdOption = Annotated[str | None, typer.Option("--transactional-id", help="default: a new one")]

TransactionSizeOption = Annotated[
    int | None, typer.Option("--transaction-size", metavar="N", help="commit after every N records")
]

CompressionOption = Annotated[Compression | None, typer.Option("--compression", "-z")]

AcksOption = Annotated[str | None, typer.Option("--acks", help="all, 1 or 0 (default: all)")]
