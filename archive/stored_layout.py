"""The layout of a table that exists: what a command needs to open it again as its archiver does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.table import Table as StoredTable

from ..admin.table_owner import Owner
from .iceberg import arrow_schema, owner_of
from .keyed import Keyed, keyed_of
from .parquet import ParquetSource
from .rows import VALUE_BYTES, form_of
from .store import ArchiveError, PartitionBy


@dataclass(frozen=True)
class StoredLayout:
    """`name`: of the table, without its namespace or folder. `layout`: of a table that exists, whose Iceberg metadata has
    the partitions; of Parquet the unit of the folders.
    """

    owner: Owner
    name: str
    schema: pa.Schema
    layout: PartitionBy | Keyed

    @classmethod
    def of_iceberg(cls, table: StoredTable) -> StoredLayout:
        """Raises ForeignTable where it is no archive's."""
        keyed = keyed_of(table.properties)
        return cls(owner_of(table), table.name()[-1], arrow_schema(table), keyed or PartitionBy.none)

    @classmethod
    def of_parquet(cls, folder: Path) -> StoredLayout:
        source = ParquetSource(folder)
        return cls(source.owner, folder.name, source.schema, source.partition_by)

    @property
    def keeps_value(self) -> bool:
        """Returns whether the bytes of values are beside typed columns."""
        return VALUE_BYTES in self.schema.names

    def check_values(self, *, are_raw: bool) -> None:
        """Raises ArchiveError where values are named as raw and the table has typed ones, or the other way round."""
        if "value" not in self.schema.names:
            return
        form = form_of(self.schema.field("value").type)
        if (form == "raw") != are_raw:
            advice = "name their format, --value-format" if are_raw else "name no format"
            raise ArchiveError(
                f"the values of table {self.name} are {form}: {advice}; `odradek archive --rebuild` gives a table others"
            )
