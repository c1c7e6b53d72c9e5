"""`odradek consume`: reads records."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from ...admin.connection import Connection
from ...admin.positions import END, parse_position
from ...client.user_errors import Misused, UserError
from ...client.wording import counted
from ...records.content_decoder import UndecodableContent, decoder
from ...records.filters import Filter, filters_of
from ...records.formats import Coding, Form
from ...records.reading import Reader
from ...records.selection import Selection
from ...records.writing import Decode, Writer, writer_of
from ...server.runtime.gc_policy import GC_PAUSES
from ..client.options import client_command, new_app
from ..messages import INTERRUPTED, warn
from ..progress import Progress
from .record_options import (
    Isolation,
    IsolationLevel,
    KeyFormatOption,
    KeySchemaOption,
    MessageOption,
    SchemaRegistryOption,
    TopicsArgument,
    ValueFormatOption,
    ValueSchemaOption,
)
from .start_option import default_start
from .tables import Tables
from .topic_patterns import matching_topics

if TYPE_CHECKING:
    from ...records.consumed import ConsumedRecord
    from ...records.contents import Content

RecordFormat = StrEnum("RecordFormat", ["table", "json", "jsonl", "csv", "csv-escaped", "plain", "parquet"])

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


OutputFormatOption = Annotated[
    RecordFormat | None,
    typer.Option(
        "--output",
        help="output format (default: plain, one value per line). Spreadsheets run cells of csv that begin with = + - @ as "
        "formulas: csv-escaped puts ' before these",
    ),
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

SkipUndecodableOption = Annotated[
    bool,
    typer.Option(
        "--skip-undecodable", help="leave out records that do not decode; a line on standard error names each"
    ),
]

app = new_app("Read records of topics.")

#: Records that are looked at in one go when a filter keeps only some of them.
_FILTERED_BATCH = 1000
#: Records that do not decode, of which a line each is shown.
_MOST_SKIPPED_NAMED = 20
#: Between writes of a batch; a table is made for each.
_MOST_IN_BATCH = 10_000

Kept = tuple[list["ConsumedRecord"], list["Content"], list["Content"]]


@app.command()
@client_command
def consume(
    topics: TopicsArgument,
    connection: Connection,
    regex: RegexOption = False,
    from_beginning: FromBeginningOption = False,
    offset: OffsetOption = None,
    until: UntilOption = None,
    follow: FollowOption = False,
    count: CountOption = None,
    partition: PartitionOption = None,
    group: GroupOption = None,
    isolation_level: IsolationLevel = Isolation.read_committed,
    output_format: OutputFormatOption = None,
    format_string: FormatStringOption = None,
    file: FileOption = None,
    key: KeyOption = None,
    value: ValueOption = None,
    header: HeaderOption = None,
    where: WhereOption = None,
    key_format: KeyFormatOption = Form.text,
    value_format: ValueFormatOption = Form.text,
    schema_registry: SchemaRegistryOption = None,
    key_schema: KeySchemaOption = None,
    value_schema: ValueSchemaOption = None,
    message: MessageOption = None,
    skip_undecodable: SkipUndecodableOption = False,
) -> None:
    """Read records. With a position, read from there to the end. Without one, wait for new records."""
    form, text = _form(output_format, format_string, file)
    if count is not None and count < 1:
        raise Misused("--count must be at least 1")
    start = default_start(group, from_beginning=from_beginning, text=offset)
    selection = Selection(
        matching_topics(connection, topics) if regex else list(dict.fromkeys(topics)),
        tuple(dict.fromkeys(partition or ())),
        start,
        parse_position(until) if until is not None else None,
        follow or (start.offset == END and until is None),
        count,
        group,
        isolation_level is Isolation.read_committed,
    )
    decoders = (
        decoder(Coding.of_options(connection, key_format, schema_registry, key_schema, message), connection),
        decoder(
            Coding.of_options(connection, value_format, schema_registry, value_schema, message),
            connection,
        ),
    )
    filters = filters_of(key, value, header or [], where or [])
    # Batches of thousands of messages have no cycles: looking for cycles takes a tenth of the time.
    with _destination(file) as out, GC_PAUSES.pause():
        skipped = _Skipped() if skip_undecodable else None
        writer = Tables() if form == "table" else writer_of(form, text, out)
        _read(connection, selection, decoders, filters, writer, out, skipped)


def _form(output_format: RecordFormat | None, format_string: str | None, file: Path | None) -> tuple[str, str | None]:
    if output_format is not None and format_string is not None:
        raise Misused("-f and --output exclude each other")
    by_name = {".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}
    form = output_format.value if output_format is not None else by_name.get(file.suffix if file else "", "plain")
    if form == "parquet" and file is None and sys.stdout.isatty():
        raise Misused("Parquet cannot be printed on a terminal: give --file NAME.parquet")
    if form == "table" and file is not None:
        raise Misused("a table can be written to standard output only: leave out --file, or choose another --output")
    return form, format_string


@contextlib.contextmanager
def _destination(file: Path | None) -> Iterator[BinaryIO]:
    if file is None:
        yield sys.stdout.buffer
    else:
        with file.open("wb") as out:
            yield out


class _Skipped:
    """Records that are left out, since they do not decode: the first ones are named, all are counted."""

    def __init__(self) -> None:
        self._count = 0

    def note(self, error: UserError) -> None:
        self._count += 1
        if self._count <= _MOST_SKIPPED_NAMED:
            warn(f"left out: {error}")

    def end(self) -> None:
        if self._count > _MOST_SKIPPED_NAMED:
            warn(
                f"{counted(self._count, 'record')} cannot be decoded, and {_MOST_SKIPPED_NAMED} of them are named above"
            )


def _read(
    connection: Connection,
    selection: Selection,
    decoders: tuple[Decode | None, Decode | None],
    filters: list[Filter],
    writer: Writer,
    out: BinaryIO,
    skipped: _Skipped | None,
) -> None:
    reader = Reader(connection, selection, warn)
    written = 0
    done: dict[tuple[str, int], int] = {}
    try:
        reader.begin()
        shows = sys.stderr.isatty() and not sys.stdout.isatty()
        with Progress("records", selection.count, shown=shows) as progress:
            left = selection.count
            for messages in reader.batches(_FILTERED_BATCH if filters else left or _MOST_IN_BATCH):
                kept, examined, undecodable = _kept(messages, decoders, filters, left, skipped)
                if kept[0]:
                    writer.write(*kept)
                    out.flush()
                    written += len(kept[0])
                    progress.advance(len(kept[0]))
                if messages and selection.group is not None:
                    done |= {(one.topic(), one.partition()): one.offset() + 1 for one in messages[:examined]}
                    reader.commit(done, is_last=False)
                if undecodable is not None:
                    raise undecodable
                if left is not None:
                    left = selection.count - written if selection.count is not None else None
                    if left == 0:
                        break
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None  # the usual end of --follow: it needs no words
    finally:
        try:
            writer.end()
            if skipped is not None:
                skipped.end()
            reader.commit(done, is_last=True)
        finally:
            reader.close()


def _kept(
    messages: list[ConsumedRecord],
    decoders: tuple[Decode | None, Decode | None],
    filters: list[Filter],
    most: int | None,
    skipped: _Skipped | None,
) -> tuple[Kept, int, UserError | None]:
    """Messages that pass the filters, with their keys and values; the number of messages that were looked at, which a group
    does not read again; the error for the next one, if it does not decode.
    """
    of_key, of_value = decoders
    if not filters and of_key is None and of_value is None:
        some = messages if most is None else messages[:most]
        return (some, [one.key() for one in some], [one.value() for one in some]), len(some), None
    kept: Kept = ([], [], [])
    kept_messages, kept_keys, kept_values = kept
    for examined, one in enumerate(messages):
        part = "key"
        try:
            key = one.key() if of_key is None else of_key(one.key(), one.topic())
            part = "value"
            value = one.value() if of_value is None else of_value(one.value(), one.topic())
        except UndecodableContent as error:
            if skipped is None:
                return kept, examined, _located(one, part, f"{error}; {_next_steps(one)}")
            skipped.note(_located(one, part, str(error)))
            continue
        if all(passes(one, key, value) for passes in filters):
            kept_messages.append(one)
            kept_keys.append(key)
            kept_values.append(value)
            if most is not None and len(kept_messages) >= most:
                return kept, examined + 1, None
    return kept, len(messages), None


def _located(message: ConsumedRecord, part: str, words: str) -> UserError:
    """The error with the record that it is of."""
    return UserError(
        f"{message.topic()}-{message.partition()}: offset {message.offset()}: the {part} does not decode: {words}"
    )


def _next_steps(message: ConsumedRecord) -> str:
    return f"-p {message.partition()} -o {message.offset() + 1} continues after it, --skip-undecodable leaves it out"
