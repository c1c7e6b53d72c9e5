"""The sources of a query: how the options of a command read its topics, and their datasets by the names of tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..admin.connection import Connection
from ..client.user_errors import UserError
from ..columns.value_schema import ValueSchema
from ..extras import install_command
from .scans import QueryScans
from .table_reading import TableReading

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from .tables import QueryTables


@dataclass(frozen=True)
class TablePlace:
    """Where tables are: one of a folder with a catalog of SQLite, properties of PyIceberg's catalog, a folder of Parquet."""

    warehouse: Path | None = None
    catalog: tuple[str, ...] = ()
    parquet: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.warehouse or self.catalog or self.parquet)


@dataclass(frozen=True)
class QuerySources:
    """How topics are read. A value: another process can have it.

    `scan_options`: of `odradek.scan`. `data_dir`: read in place of a cluster.
    """

    scan_options: dict[str, object] = field(default_factory=lambda: {"isolation_level": "read_committed"})
    values: ValueSchema | None = None
    as_text: bool = True
    data_dir: Path | None = None
    place: TablePlace = TablePlace()
    namespace: str = "kafka"

    def opened(self, connection: Connection) -> OpenSources:
        """The sources for queries with the rights of a connection. Raises UserError for a place without tables."""
        return OpenSources(self, connection)


class OpenSources:
    """The datasets of a query. Made by `QuerySources.opened`."""

    def __init__(self, sources: QuerySources, connection: Connection) -> None:
        self._scans = QueryScans(connection, sources.data_dir, sources.scan_options, sources.as_text, sources.values)
        self._tables: QueryTables | None = _tables(sources, connection) if sources.place else None

    def table(self, name: str) -> ds.Dataset:
        """The dataset of a topic. Raises UserError, ScanError."""
        if self._tables is not None:
            return self._tables.table(name, otherwise=self._scans.table)
        return self._scans.table(name)

    @property
    def failure(self) -> Exception | None:
        """The first error that a reading has raised; an engine may raise an error of its own in place of it."""
        return self._scans.failure or (None if self._tables is None else self._tables.failure)

    def warn(self) -> None:
        self._scans.warn()


def _tables(sources: QuerySources, connection: Connection) -> QueryTables:
    try:
        from ..archive.table_options import chosen_catalog, explained
        from .tables import QueryTables
    except ImportError as error:
        raise UserError(f"tables need PyIceberg ({error}): {install_command('tables')}") from None
    place = sources.place
    reading = TableReading(
        sources.namespace, str(sources.scan_options["isolation_level"]), sources.values, sources.as_text
    )
    with explained():
        catalog = chosen_catalog(place.warehouse, list(place.catalog), place.parquet, must_exist=True)
        return QueryTables(connection, catalog, place.parquet, reading)
