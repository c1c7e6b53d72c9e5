"""The options of `odradek archive` for tables with a row for each key."""

from __future__ import annotations

from typing import Annotated

import typer

from ..client.user_errors import Misused
from .key_columns import KeyColumns, column_path
from .keyed import Envelope, Keyed
from .store import ArchiveError, PartitionBy
from .table_partitions import partition_columns, split_columns

Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="COLUMNS", help="a row for each key: `key` is the record's, others are fields of the value"
    ),
]
EnvelopeForm = Annotated[
    Envelope, typer.Option("--envelope", help="with --key: values are rows, or change events of Debezium")
]
SortBy = Annotated[
    str | None,
    typer.Option("--sort-by", metavar="COLUMNS", help="with --key: order of rows in files (default: the key)"),
]
RowTtl = Annotated[
    float | None,
    typer.Option("--row-ttl", metavar="SECONDS", help="with --key: age of records whose rows are deleted", min=1.0),
]


def chosen_keyed(
    key: str | None, envelope: Envelope, sort_by: str | None, row_ttl_s: float | None, partition_by: str | None
) -> Keyed | None:
    """The settings of keyed tables; None without --key. Raises Misused."""
    if key is None:
        given = {"--envelope": envelope is not Envelope.none, "--sort-by": sort_by, "--row-ttl": row_ttl_s}
        for name, value in given.items():
            if value:
                raise Misused(f"{name} needs --key")
        return None
    try:
        return Keyed(
            KeyColumns.named(split_columns(key)), envelope,
            tuple(column_path(one) for one in split_columns(sort_by)) if sort_by is not None else (),
            row_ttl_s, partition_columns(partition_by if partition_by is not None else PartitionBy.none.value),
        )  # fmt: skip
    except ArchiveError as error:
        raise Misused(str(error)) from None


def partition_unit(text: str | None) -> PartitionBy:
    """The partitions of a table with a row for each record. Raises Misused."""
    if text is None:
        return PartitionBy.day
    try:
        return PartitionBy(text)
    except ValueError:
        raise Misused(f"--partition-by takes {', '.join(PartitionBy)}; columns need --key") from None
