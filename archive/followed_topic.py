"""A topic whose table follows it: its configs odradek.table.* as the table's name, partitions and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..admin.connection import Connection
from ..columns import ValueSchema
from .ownership import checked_name, table_name
from .store import ArchiveError, PartitionBy

#: The configs.
ENABLE, FORMAT, NAME = "odradek.table.enable", "odradek.table.format", "odradek.table.name"
PARTITION_BY, KEEP_VALUE = "odradek.table.partition.by", "odradek.table.keep.value"
SKIP_UNREADABLE = "odradek.table.skip.unreadable"
CONFIGS = (ENABLE, FORMAT, NAME, PARTITION_BY, KEEP_VALUE, SKIP_UNREADABLE)
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

        unit = configs.get(PARTITION_BY, PartitionBy.day).strip()
        if unit not in set(PartitionBy):
            raise ArchiveError(f"topic {topic}: {PARTITION_BY} is one of {', '.join(PartitionBy)}, not {unit!r}")
        return cls(
            topic,
            checked_name(configs.get(NAME) or table_name(topic)),
            configs.get(FORMAT, "raw").strip(),
            PartitionBy(unit),
            _is_true(configs, KEEP_VALUE),
            _is_true(configs, SKIP_UNREADABLE),
        )

    def values(self, connection: Connection) -> ValueSchema | None:
        """The types of values; None for raw ones. `connection`: its properties name the registry. Raises ArchiveError."""
        if self.format == "raw":
            return None
        found = ValueSchema.of_options(connection, self.format, None, None, None)
        if found.registry is None and not found.is_free_json:
            raise ArchiveError(
                f"topic {self.topic}: {FORMAT}={self.format} needs a schema registry: name it by schema.registry.url in the "
                "file of odradek.table.client.config"
            )
        return found


def is_enabled(configs: Mapping[str, str]) -> bool:
    """Returns whether a table follows the topic with these configs."""
    return _is_true(configs, ENABLE)


def in_words_of_configs(text: str, topic: str) -> str:
    """An error with the topic's config in place of the option of `odradek archive` that it names."""
    return text.replace(f"--table {topic}=NAME", f"set {NAME}=NAME of the topic")


def _is_true(configs: Mapping[str, str], name: str) -> bool:
    return configs.get(name, "").strip().lower() == _TRUE
