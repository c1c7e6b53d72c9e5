"""A topic whose table follows it: its configs odradek.table.* as the table's name, partitions and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..admin.connection import Connection
from ..client.user_errors import Misused
from ..columns import ValueSchema
from .ownership import checked_name, table_name
from .store import ArchiveError, PartitionBy

#: The beginning of the names of these configs.
PREFIX = "odradek.table."
ENABLE = f"{PREFIX}enable"
_TRUE = "true"


@dataclass(frozen=True)
class FollowedTopic:
    """`format`: raw, json, avro or protobuf. `name`: of the table."""

    topic: str
    name: str
    format: str = "raw"
    partition_by: PartitionBy = PartitionBy.day
    keep_value: bool = False
    skip_unreadable: bool = False

    @classmethod
    def of_configs(cls, topic: str, configs: Mapping[str, str]) -> FollowedTopic:
        """`configs`: those that the topic sets. Raises ArchiveError for values that this release does not have."""

        def text(key: str, default: str) -> str:
            return configs.get(f"{PREFIX}{key}", default).strip()

        try:
            partition_by = PartitionBy(text("partition.by", PartitionBy.day))
        except ValueError:
            raise ArchiveError(
                f"topic {topic}: {PREFIX}partition.by is one of {', '.join(PartitionBy)}, not {text('partition.by', '')!r}"
            ) from None
        return cls(
            topic,
            checked_name(text("name", "") or table_name(topic)),
            text("format", "raw"),
            partition_by,
            text("keep.value", "").lower() == _TRUE,
            text("skip.unreadable", "").lower() == _TRUE,
        )

    def values(self, connection: Connection) -> ValueSchema | None:
        """The types of values; None for raw ones. `connection`: its properties name the registry. Raises ArchiveError."""
        if self.format == "raw":
            return None
        try:
            return ValueSchema.of_options(connection, self.format, None, None, None)
        except Misused as error:
            raise ArchiveError(
                f"topic {self.topic}: {PREFIX}format={self.format} needs a schema registry: name it by "
                f"schema.registry.url in the file of {PREFIX}client.config ({error})"
            ) from None
