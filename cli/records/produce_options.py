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

FilesArgument = Annotated[
    list[Path] | None, typer.Argument(metavar="[FILE...]", help="files to read (default: standard input)")
]

InputFormOption = Annotated[
    InputForm | None,
    typer.Option("--input", "-i", help="default: by the file's name, else lines; `file`: each file is one record"),
]

KeyOption = Annotated[str | None, typer.Option("--key", "-k", help="key of every record")]

KeyDelimiterOption = Annotated[
    str | None, typer.Option("--key-delimiter", "-K", metavar="TEXT", help="text between key and value of a line")
]

DelimiterOption = Annotated[str, typer.Option("--delimiter", "-D", metavar="TEXT", help="text between records")]

NullValueOption = Annotated[
    str | None,
    typer.Option("--null", "-Z", metavar="TEXT", help="a line with this text has no value (a tombstone)"),
]

HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="header of every record; may be repeated"),
]

PartitionOption = Annotated[
    int | None,
    typer.Option("--partition", "-p", help="partition of the records (default: by the key, as in Java clients)"),
]

TimestampOption = Annotated[
    str | None,
    typer.Option("--timestamp", metavar="TIME", help="timestamp of every record: ms or ISO 8601 (default: now)"),
]

KeyColumnOption = Annotated[
    str | None, typer.Option("--key-column", help="column of CSV or Parquet input that has the key")
]

ValueColumnOption = Annotated[
    str | None, typer.Option("--value-column", help="column that has the value (default: the row as JSON)")
]

CountOption = Annotated[int | None, typer.Option("--count", "-c", metavar="N", help="stop after N records")]

RepeatOption = Annotated[bool, typer.Option("--repeat", help="repeat the input until --count records are sent")]

RateOption = Annotated[float | None, typer.Option("--rate", metavar="N", help="most records per second")]

TransactionalOption = Annotated[bool, typer.Option("--transactional", help="send all records in one transaction")]

TransactionalIdOption = Annotated[
    str | None, typer.Option("--transactional-id", help="transactional id (default: a random id)")
]

TransactionSizeOption = Annotated[
    int | None, typer.Option("--transaction-size", metavar="N", help="commit after every N records")
]

CompressionOption = Annotated[Compression | None, typer.Option("--compression", "-z")]

AcksOption = Annotated[str | None, typer.Option("--acks", help="acks: all, 1 or 0 (default: all)")]
