"""The tables of `odradek archive` in a query: a topic that has one is read from it, and behind it from its log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
from pyiceberg.catalog import Catalog

from ..admin.connection import Connection
from ..archive.relation import Relation, relation
from ..archive.store import ArchiveError, NoSuchTable
from ..client.user_errors import UserError
from .table_reading import TableReading


class QueryTables:
    """The datasets of a query, by the names of its tables."""

    def __init__(
        self, connection: Connection, catalog: Catalog | None, parquet: Path | None, reading: TableReading
    ) -> None:
        """`catalog`: where the tables are; None for those of the folder `parquet`."""
        self._connection = connection
        self._catalog = catalog
        self._parquet = parquet
        self._reading = reading
        self._relations: list[Relation] = []

    @property
    def failure(self) -> Exception | None:
        """The first error that a reading has raised; an engine may raise an error of its own in place of it."""
        found = next((one.failure for one in self._relations if one.failure is not None), None)
        return UserError(str(found), found.kind) if isinstance(found, ArchiveError) else found

    def table(self, topic: str, otherwise: Callable[[str], ds.Dataset]) -> ds.Dataset:
        """The relation of a topic, or for one without a table what `otherwise` returns. Raises UserError, ScanError."""
        reading = self._reading
        try:
            made = relation(
                topic, client=self._connection.properties, catalog=self._catalog, parquet=self._parquet,
                namespace=reading.namespace, values=reading.values, isolation_level=reading.isolation_level,
            )  # fmt: skip
        except NoSuchTable:
            return otherwise(topic)
        except ArchiveError as error:
            raise UserError(str(error), error.kind) from None
        if reading.as_text:
            made = made.as_text(["key"] if reading.values is not None else ["key", "value"])
        self._relations.append(made)
        return made
