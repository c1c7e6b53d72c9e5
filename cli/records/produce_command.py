"""`odradek produce`: writes records."""

from __future__ import annotations

import io
import itertools
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from ...admin.connection import Connection
from ...admin.positions import timestamp_ms
from ...client.user_errors import Misused
from ...records.content_encoder import Encode, encoder
from ...records.formats import Coding, Form
from ..client.options import DryRun, client_command, new_app
from ..client.value_completion import complete_topic
from ..output import Output, Table
from .input_record import Batch, InputForm, Record, Shape, name_of
from .inputs import is_lines, records_of
from .line_input import size_of, value_batches
from .line_ranges import ALL, parse_lines
from .record_options import (
    KeyFormatOption,
    KeySchemaOption,
    MessageOption,
    SchemaRegistryOption,
    ValueFormatOption,
    ValueSchemaOption,
)
from .sending import Sender, Sent
from .taken_lines import TakenLines
from .topic_check import check_topic

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

FromLineOption = Annotated[
    str | None,
    typer.Option(
        "--from-line",
        metavar="N",
        help="begin at this line of the first input, as the message of a stopped run names it",
    ),
]

CreateOption = Annotated[
    bool, typer.Option("--create", help="create the topic where it does not exist, with the brokers' defaults")
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


app = new_app("Write records to a topic.")


@app.command()
@client_command
def produce(
    topic: TopicArgument,
    connection: Connection,
    output: Output,
    files: FilesArgument = None,
    input_form: InputFormOption = None,
    key: KeyOption = None,
    key_delimiter: KeyDelimiterOption = None,
    delimiter: DelimiterOption = "\\n",
    null_value: NullValueOption = None,
    header: HeaderOption = None,
    partition: PartitionOption = None,
    timestamp: TimestampOption = None,
    key_column: KeyColumnOption = None,
    value_column: ValueColumnOption = None,
    from_line: FromLineOption = None,
    count: CountOption = None,
    repeat: RepeatOption = False,
    rate: RateOption = None,
    transactional: TransactionalOption = False,
    transactional_id: TransactionalIdOption = None,
    transaction_size: TransactionSizeOption = None,
    compression: CompressionOption = None,
    acks: AcksOption = None,
    key_format: KeyFormatOption = Form.text,
    value_format: ValueFormatOption = Form.text,
    schema_registry: SchemaRegistryOption = None,
    key_schema: KeySchemaOption = None,
    value_schema: ValueSchemaOption = None,
    message: MessageOption = None,
    create: CreateOption = False,
    dry_run: DryRun = False,
) -> None:
    """Write records, from standard input or files. A run that stops tells how many are written, and where to resume."""
    shape = Shape(
        unescaped(delimiter),
        unescaped(key_delimiter) if key_delimiter is not None else None,
        null_value.encode() if null_value is not None else None,
        key_column,
        value_column,
        parse_lines(from_line) if from_line is not None else ALL,
    )
    _check(count, rate, transaction_size, shape, repeat=repeat)
    fixed = _Fixed(
        key.encode() if key is not None else None,
        [_header(text) for text in header or []],
        partition,
        timestamp_ms(timestamp) if timestamp is not None else None,
    )
    sources: list[Path | None] = [*(files or [])] or [None]
    records = _repeated(sources, input_form, shape) if repeat else _once(sources, input_form, shape)
    of_keys = Coding.of_options(connection, key_format, schema_registry, key_schema, message)
    of_values = Coding.of_options(connection, value_format, schema_registry, value_schema, message)
    encoders = (encoder(of_keys, connection, f"{topic}-key"), encoder(of_values, connection, f"{topic}-value"))
    limited = itertools.islice((_encoded(fixed.applied(record), *encoders) for record in records), count)
    check_topic(connection, topic, creates=create, dry_run=dry_run)
    if dry_run:
        _show(output, topic, _counted(limited), dry_run=True)
        return
    if transactional_id is None and (transactional or transaction_size is not None):
        transactional_id = f"odradek-cli-{uuid.uuid4()}"
    lines = TakenLines([name_of(one) for one in sources], are_repeated=repeat)
    sender = Sender(connection, topic, _settings(compression, acks), lines, transactional_id, transaction_size)
    is_plain = transactional_id is None and _is_plain(sources, input_form, shape) and encoders == (None, None)
    if is_plain and not (fixed.is_of_each or repeat or rate or count):
        sent = sender.send_values(_value_batches(sources, shape), fixed.key, partition, size_of(sources))
    else:
        sent = sender.send(limited, rate, count)
    _show(output, topic, sent, dry_run=False)


def _is_plain(sources: list[Path | None], form: InputForm | None, shape: Shape) -> bool:
    """Whether the records are values alone, of lines that follow one another."""
    has_rest = not shape.lines.ranges
    return has_rest and replace(shape, lines=ALL) == Shape() and all(is_lines(one, form) for one in sources)


def _value_batches(sources: list[Path | None], shape: Shape) -> Iterator[Batch]:
    stdin = _standard_input() if None in sources else io.BytesIO()
    return value_batches(sources, stdin, shape.lines.rest)


def unescaped(text: str) -> bytes:
    """A delimiter of the command line, in which \\n, \\t, \\0 and \\xHH are characters. Raises Misused."""
    try:
        made = text.encode().decode("unicode_escape").encode("latin-1") if "\\" in text else text.encode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        raise Misused(f"{text!r} is not a delimiter: give text, \\n, \\t, \\0 or \\xHH") from None
    if not made:
        raise Misused("a delimiter needs at least one character")
    return made


def _check(count: int | None, rate: float | None, size: int | None, shape: Shape, *, repeat: bool) -> None:
    for option, number in (("--count", count), ("--rate", rate), ("--transaction-size", size)):
        if number is not None and number <= 0:
            raise Misused(f"{option} must be more than 0")
    if repeat and count is None:
        raise Misused("--repeat needs --count, the total number of records")


def _settings(compression: Compression | None, acks: str | None) -> dict[str, str | bool]:
    made: dict[str, str | bool] = {}
    if compression is not None:
        made["compression.type"] = compression.value
    if acks is not None:
        if acks not in ("all", "-1", "0", "1"):
            raise Misused("--acks must be all, 1 or 0")
        made |= {"acks": acks} | ({} if acks in ("all", "-1") else {"enable.idempotence": False})
    return made


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Misused("--header needs NAME=VALUE")
    return name, value.encode()


def _encoded(record: Record, encode_key: Encode | None, encode_value: Encode | None) -> Record:
    if encode_key is not None and record.key is not None:
        record.key = encode_key(record.key)
    if encode_value is not None and record.value is not None:
        record.value = encode_value(record.value)
    return record


class _Fixed:
    """The values that options give to every record; a key, partition or time of the record itself stays."""

    def __init__(
        self, key: bytes | None, headers: list[tuple[str, bytes]], partition: int | None, timestamp: int | None
    ) -> None:
        self.key, self._headers, self._partition, self._timestamp = key, headers, partition, timestamp

    @property
    def is_of_each(self) -> bool:
        """Whether a record has more than a value, a key and a partition."""
        return bool(self._headers) or self._timestamp is not None

    def applied(self, record: Record) -> Record:
        if record.key is None:
            record.key = self.key
        if self._headers:
            record.headers = [*record.headers, *self._headers]
        if self._partition is not None:
            record.partition = self._partition
        if self._timestamp is not None and not record.timestamp_ms:
            record.timestamp_ms = self._timestamp
        return record


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise Misused("standard input is closed: give a FILE")
    return sys.stdin.buffer


def _once(sources: list[Path | None], form: InputForm | None, shape: Shape) -> Iterator[Record]:
    for index, source in enumerate(sources):
        lines = shape.lines if index == 0 else ALL
        stdin = _standard_input() if source is None else io.BytesIO()
        for record in records_of(source, stdin, form, replace(shape, lines=lines)):
            record.source = index
            yield record


def _repeated(sources: list[Path | None], form: InputForm | None, shape: Shape) -> Iterator[Record]:
    """Standard input is kept in memory: it cannot be read twice."""
    kept = list(_once(sources, form, shape)) if None in sources else None
    while True:
        some = False
        for record in kept if kept is not None else _once(sources, form, shape):
            some = True
            yield Record(record.value, record.key, list(record.headers), record.partition, record.timestamp_ms)
        if not some:
            return


def _counted(records: Iterator[Record]) -> Sent:
    sent = Sent()
    for record in records:
        sent.records += 1
        sent.bytes += len(record.value or b"") + len(record.key or b"")
    return sent


def _show(output: Output, topic: str, sent: Sent, *, dry_run: bool) -> None:
    found = {
        "topic": topic,
        "records": sent.records,
        "bytes": sent.bytes,
        "transactions": sent.transactions,
        "seconds": round(sent.seconds, 3),
        "dry_run": dry_run,
    }
    if output.form == "table":
        noun = "record" if sent.records == 1 else "records"
        typer.echo(f"{'would be produced' if dry_run else 'produced'}: {sent.records} {noun} to {topic}")
    else:
        output.show([found], Table("", [name.upper() for name in found], [list(found.values())]))
