"""`odradek record`: records of topics into a file that a test replays (odradek.testing.recording)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...admin.connection import Connection
from ...admin.errors import InvalidOptions
from ...admin.positions import BEGINNING, Position
from ...client.user_errors import Misused, UserError
from ...client.wording import counted
from ...records.reading import Reader
from ...records.selection import Selection
from ...testing.recording import MOST_RECORDS, Masking, Recorded, write
from ..client.options import client_command, new_app
from ..progress import Progress
from .record_options import TopicsArgument

if TYPE_CHECKING:
    from ...records.consumed import ConsumedRecord


app = new_app("Copy records of topics into a file for tests.")

_BATCH = 1000

FileOption = Annotated[Path, typer.Option("--file", metavar="NAME.jsonl", help="the file to write")]
MaskOption = Annotated[
    list[str] | None,
    typer.Option("--mask", metavar="FIELD", help="mask a field of JSON values, such as customer.name; may be repeated"),
]
MaskKeysOption = Annotated[bool, typer.Option("--mask-keys", help="mask the keys of records, too")]
CountOption = Annotated[int, typer.Option("--count", "-c", metavar="N", help="most records to copy, the oldest first")]


@app.command()
@client_command
def record(
    topics: TopicsArgument,
    connection: Connection,
    file: FileOption,
    mask: MaskOption = None,
    mask_keys: MaskKeysOption = False,
    count: CountOption = MOST_RECORDS,
) -> None:
    """Copy the records of topics into a file, the oldest first. Equal values of masked fields stay equal."""
    if count < 1:
        raise Misused("--count must be at least 1")
    selection = Selection(topics, start=Position(BEGINNING), count=count)
    try:
        with Progress("records", None) as progress:
            written = write(_records(connection, selection, progress), file, Masking(mask or (), keys=mask_keys))
    except InvalidOptions:
        raise
    except ValueError as error:
        raise UserError(f"{error}; nothing is recorded") from None
    print(f"recorded: {counted(written, 'record')} in {file}")


def _records(connection: Connection, selection: Selection, progress: Progress) -> Iterator[Recorded]:
    reader, left = Reader(connection, selection), selection.count or 0
    try:
        reader.begin()
        for messages in reader.batches(min(left, _BATCH)):
            for one in messages[:left]:
                yield _recorded(one)
            progress.advance(len(messages[:left]))
            left -= len(messages[:left])
            if left == 0:
                return
    finally:
        reader.close()


def _recorded(message: ConsumedRecord) -> Recorded:
    _, timestamp = message.timestamp()
    headers = message.headers() or ()
    return Recorded(message.topic(), message.partition(), timestamp, message.key(), message.value(), headers)
