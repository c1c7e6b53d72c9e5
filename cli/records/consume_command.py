"""`odradek consume`: reads records."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from ...server.runtime.gc_policy import GC_PAUSES
from ..client.connection import Connection
from ..client.errors import Misused
from ..client.options import client_command, new_app
from ..options import INTERRUPTED, warn
from ..output import Progress
from .formats import Coding, Form, decoder
from .reading import Reader, default_start, matching_topics
from .record_options import (
    Isolation,
    KeyFormatOption,
    KeySchemaOption,
    MessageOption,
    SchemaRegistryOption,
    TopicsArgument,
    ValueFormatOption,
    ValueSchemaOption,
)
from .selection import END, Filter, Selection, filters_of, parse_position
from .writing import Decode, Writer, writer_of

if TYPE_CHECKING:
    from .consumed import ConsumedRecord, Content


# ---- options

# ---- `odradek consume`

RecordFormat = StrEnum("RecordFormat", ["table", "json", "jsonl", "csv", "plain", "parquet"])


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


app = new_app("Read records of topics.")

#: Records that are looked at in one go when a filter keeps only some of them.
_FILTERED_BATCH = 1000
#: Between writes of a batch; a table is made for each.
_MOST_IN_BATCH = 10_000


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
    isolation_level: IsolationLevelOption = Isolation.read_committed,
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
) -> None:
    """Read records. With a position, read from there to the end. Without one, wait for new records."""
    form, text = _form(output_format, format_string, file)
    if count is not None and count < 1:
        raise Misused("--count must be at least 1")
    start = default_start(group, from_beginning=from_beginning, text=offset)
    selection = Selection(
        matching_topics(connection, topics) if regex else topics,
        partition or (),
        start,
        parse_position(until) if until is not None else None,
        follow or (start.offset == END and until is None),
        count,
        group,
        isolation_level is Isolation.read_committed,
    )
    decoders = (
        decoder(Coding(key_format, schema_registry, key_schema, message), connection),
        decoder(Coding(value_format, schema_registry, value_schema, message), connection),
    )
    filters = filters_of(key, value, header or [], where or [])
    # Batches of thousands of messages have no cycles: looking for cycles takes a tenth of the time.
    with _destination(file) as out, GC_PAUSES.pause():
        _read(connection, selection, decoders, filters, writer_of(form, text, out), out)


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


def _read(
    connection: Connection,
    selection: Selection,
    decoders: tuple[Decode | None, Decode | None],
    filters: list[Filter],
    writer: Writer,
    out: BinaryIO,
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
                kept = _kept(messages, decoders, filters, left)
                if kept[0]:
                    writer.write(*kept)
                    out.flush()
                    written += len(kept[0])
                    progress.advance(len(kept[0]))
                if messages and selection.group is not None:
                    full = left is not None and len(kept[0]) >= left
                    done |= {
                        (one.topic(), one.partition()): one.offset() + 1
                        for one in _examined(messages, kept[0], is_full=full)
                    }
                    reader.commit(done, is_last=False)
                if left is not None:
                    left = selection.count - written if selection.count is not None else None
                    if left == 0:
                        break
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None  # the usual end of --follow: it needs no words
    finally:
        try:
            writer.end()
            reader.commit(done, is_last=True)
        finally:
            reader.close()


Kept = tuple[list["ConsumedRecord"], list["Content"], list["Content"]]


def _kept(
    messages: list[ConsumedRecord],
    decoders: tuple[Decode | None, Decode | None],
    filters: list[Filter],
    most: int | None,
) -> Kept:
    """Messages that pass the filters, with their keys and values."""
    of_key, of_value = decoders
    if not filters and of_key is None and of_value is None:
        some = messages if most is None else messages[:most]
        return some, [one.key() for one in some], [one.value() for one in some]
    kept: Kept = ([], [], [])
    kept_messages, kept_keys, kept_values = kept
    for one in messages:
        key = one.key() if of_key is None else of_key(one.key(), one.topic())
        value = one.value() if of_value is None else of_value(one.value(), one.topic())
        if all(passes(one, key, value) for passes in filters):
            kept_messages.append(one)
            kept_keys.append(key)
            kept_values.append(value)
            if most is not None and len(kept_messages) >= most:
                break
    return kept


def _examined(messages: list[ConsumedRecord], kept: list[ConsumedRecord], *, is_full: bool) -> list[ConsumedRecord]:
    """Messages up to the last one that was looked at: those after it are read again by the group."""
    return messages[: messages.index(kept[-1]) + 1] if is_full and kept else messages
