"""`odradek replay TABLE TOPIC` writes a table, or a range of it, back into a topic."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ..admin.connection import Connection
from ..cli.client.options import client_command, new_app
from ..cli.messages import warn
from ..cli.output import Output
from ..cli.output import Table as ResultTable
from ..cli.progress import Progress
from ..client.user_errors import Misused
from ..client.wording import counted
from .iceberg import IcebergSource
from .parquet import ParquetSource
from .replay import Replay, ReplayRange
from .store import Source
from .table_options import Catalog, Parquet, Warehouse, chosen_catalog, explained

app = new_app("Write a table back into a topic.")
_DEAD_LETTERS = "/dead_letters"


@app.command()
@client_command
def replay(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE, or the topic's folder below --parquet")
    ],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="the topic to write to, with partitions enough")],
    connection: Connection,
    output: Output,
    warehouse: Warehouse = None,
    catalog: Catalog = None,
    parquet: Parquet = None,
    partition: Annotated[list[int] | None, typer.Option("--partition", metavar="N", help="repeatable")] = None,
    start_offset: Annotated[int | None, typer.Option("--start-offset", metavar="N")] = None,
    end_offset: Annotated[int | None, typer.Option("--end-offset", metavar="N", help="the first one left out")] = None,
    start_timestamp: Annotated[
        str | None, typer.Option("--start-timestamp", metavar="TIME", help="milliseconds, or 2026-11-26T08:00Z")
    ] = None,
    end_timestamp: Annotated[
        str | None, typer.Option("--end-timestamp", metavar="TIME", help="the first one left out")
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", metavar="N", help="the highest rate, in records/s")] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="name of the progress (default: of table, topic and range)"),
    ] = None,
) -> None:
    """Write a table back into a topic: `odradek replay kafka.orders orders-again --warehouse tables`.

    The same command goes on where an interrupted one stopped.
    """
    if rate is not None and rate <= 0:
        raise Misused("--rate must be more than 0")
    within = ReplayRange(
        partition, start_offset, end_offset, _milliseconds(start_timestamp), _milliseconds(end_timestamp)
    )
    with explained():
        found = chosen_catalog(warehouse, catalog, parquet)
        source: Source = _folder(parquet, table) if parquet is not None else IcebergSource(found, table)
        made = Replay(source, connection.properties, topic, within, rate=rate, name=name)
        with Progress("records", made.total) as progress:
            made.on_progress = progress.advance
            done = made.run()
    if done.replaced_timestamps:
        warn(
            f"{counted(done.replaced_timestamps, 'record')} with the timestamp 0: they were written with the current time"
        )
    row = {"topic": topic, "records": done.records, "transactions": done.transactions, "progress": made.name}
    output.show([row], ResultTable("", ("TOPIC", "RECORDS", "TRANSACTIONS", "PROGRESS"), [list(row.values())]))


def _folder(parquet: Path, table: str) -> ParquetSource:
    name = table.removesuffix(_DEAD_LETTERS)
    return ParquetSource(parquet / name, dead_letters=name != table)


def _milliseconds(text: str | None) -> int | None:
    """Raises Misused for a text that is no time."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(f"{text!r} is not a time: milliseconds, or 2026-11-26T08:00Z") from None
    return int((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000)
