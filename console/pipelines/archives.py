"""Tables of `odradek archive`, by the offsets in their newest commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...admin.places import Place
from ...admin.table_owner import Role
from ...client.user_errors import UserError
from ...extras import install_command
from ..settings import Archives
from .commits import archive_group
from .pipeline import MOST_PIPELINES, Kind, Pipeline, read_until

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from ...archive.table_status import TableProgress

Ends = Callable[[list[Place]], dict[Place, int]]


class ArchiveTables:
    """Reads the tables of one place. The catalog stays open."""

    def __init__(self, archives: Archives) -> None:
        self._archives = archives
        self._catalog: Catalog | None = None

    def read(self, cluster_id: str, ends: Ends) -> list[Pipeline]:
        """The archives of a cluster's topics. Raises UserError for tables that cannot be read."""
        tables = self._tables()
        own = [one for one in tables if one.owner.cluster_id in ("", cluster_id)][:MOST_PIPELINES]
        positions = {
            one.table: {(one.owner.topic, index): offset for index, offset in one.offsets.items()} for one in own
        }
        known = ends([place for places in positions.values() for place in places])
        return [
            Pipeline(
                Kind.archive,
                one.table,
                self._archives.place,
                "has offsets" if one.offsets else "without a commit",
                "good" if one.offsets else "plain",
                read_until(positions[one.table], known),
                one.commit_ms,
                group=archive_group(one.table),
            )
            for one in own
        ]

    def _tables(self) -> list[TableProgress]:
        try:
            from ...archive.store import ArchiveError
            from ...archive.table_options import chosen_catalog
            from ...archive.table_status import (
                iceberg_tables,
                parquet_folders,
                progress_of_iceberg,
                progress_of_parquet,
            )
        except ImportError:
            raise UserError(f"archives need packages that are not installed: {install_command('archive')}") from None
        options = self._archives
        try:
            if options.parquet is not None:
                chosen_catalog(None, None, options.parquet, must_exist=True)
                every = [progress_of_parquet(one) for one in parquet_folders(options.parquet, None)]
            else:
                if self._catalog is None:
                    self._catalog = chosen_catalog(options.warehouse, list(options.catalog), None, must_exist=True)
                every = [progress_of_iceberg(one) for one in iceberg_tables(self._catalog, options.namespace, None)]
        except ArchiveError as error:
            raise UserError(str(error), error.kind) from None
        return [one for one in every if one.owner.role == Role.rows]
