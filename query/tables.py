"""The tables of `odradek archive` in a query: a topic that has one is read from it, and behind it from its log."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pyarrow.dataset as ds

from ..admin.connection import Connection
from ..archive.iceberg import open_catalog
from ..archive.relation import Relation, relation
from ..archive.store import ArchiveError, NoSuchTable
from ..client.properties import pairs
from ..client.user_errors import UserError
from ..columns.value_schema import ValueSchema
from .table_place import TablePlace


class QueryTables:
    """The datasets of a query, by the names of its tables."""

    def __init__(
        self,
        connection: Connection,
        place: TablePlace,
        isolation_level: str,
        values: ValueSchema | None,
        as_text: bool,
    ) -> None:
        """Raises UserError for a catalog that cannot be opened."""
        # PyIceberg logs each problem that it repeats or leaves; errors are raised.
        logging.getLogger("pyiceberg").setLevel(logging.ERROR)
        self._connection = connection
        self._place = place
        self._isolation_level = isolation_level
        self._values = values
        self._as_text = as_text
        self._catalog = None
        self._relations: list[Relation] = []
        if place.parquet is None:
            properties = pairs(place.catalog or [], "--catalog")
            try:
                self._catalog = open_catalog(place.warehouse, properties)
            except ArchiveError as error:
                raise UserError(str(error), error.kind) from None

    @property
    def failure(self) -> Exception | None:
        """The first error that a reading has raised; an engine may raise an error of its own in place of it."""
        found = next((one.failure for one in self._relations if one.failure is not None), None)
        return UserError(str(found), found.kind) if isinstance(found, ArchiveError) else found

    def table(self, topic: str, otherwise: Callable[[str], ds.Dataset]) -> ds.Dataset:
        """The relation of a topic, or for one without a table what `otherwise` returns. Raises UserError, ScanError."""
        try:
            made = relation(
                topic, client=self._connection.properties, catalog=self._catalog, parquet=self._place.parquet,
                namespace=self._place.namespace, values=self._values, isolation_level=self._isolation_level,
            )  # fmt: skip
        except NoSuchTable:
            return otherwise(topic)
        except ArchiveError as error:
            raise UserError(str(error), error.kind) from None
        if self._as_text:
            made = made.as_text(["key"] if self._values is not None else ["key", "value"])
        self._relations.append(made)
        return made
