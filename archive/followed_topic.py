"""A topic whose table follows it: its configs odradek.table.* as the table's name, partitions and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..admin.connection import Connection
from ..client.user_errors import Misused
from ..columns import ValueSchema
from .keyed import Envelope, Keyed
from .keyed_options import chosen_keyed, partition_unit
from .ownership import checked_name, table_name
from .store import ArchiveError, PartitionBy

#: The configs.
ENABLE, FORMAT, NAME = "odradek.table.enable", "odradek.table.format", "odradek.table.name"
PARTITION_BY, KEEP_VALUE = "odradek.table.partition.by", "odradek.table.keep.value"
SKIP_UNREADABLE = "odradek.table.skip.unreadable"
KEY, ENVELOPE = "odradek.table.key", "odradek.table.envelope"
SORT_BY, ROW_TTL_MS = "odradek.table.sort.by", "odradek.table.row.ttl.ms"
CONFIGS = (ENABLE, FORMAT, NAME, PARTITION_BY, KEEP_VALUE, SKIP_UNREADABLE, KEY, ENVELOPE, SORT_BY, ROW_TTL_MS)
_TRUE = "true"
#: Configs in place of options of `odradek archive`.
_CONFIG_OF = {
    "--key": KEY, "--envelope": ENVELOPE, "--sort-by": SORT_BY, "--row-ttl": ROW_TTL_MS, "--partition-by": PARTITION_BY,
}  # fmt: skip


@dataclass(frozen=True)
class FollowedTopic:
    """`format`: raw, json, avro or protobuf. `name`: of the table. `layout`: how the table is partitioned, or keyed."""

    topic: str
    name: str
    format: str = "raw"
    layout: PartitionBy | Keyed = PartitionBy.day
    keep_value: bool = False
    skip_unreadable: bool = False

    @classmethod
    def of_configs(cls, topic: str, configs: Mapping[str, str]) -> FollowedTopic:
        """`configs`: those that the topic sets. Raises ArchiveError for values that this release does not have."""
        return cls(
            topic,
            checked_name(configs.get(NAME) or table_name(topic)),
            configs.get(FORMAT, "raw").strip(),
            _layout(topic, configs),
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


def _layout(topic: str, configs: Mapping[str, str]) -> PartitionBy | Keyed:
    partition_by, ttl_ms = configs.get(PARTITION_BY), configs.get(ROW_TTL_MS)
    try:
        keyed = chosen_keyed(
            configs.get(KEY), Envelope(configs.get(ENVELOPE, Envelope.none).strip()), configs.get(SORT_BY),
            None if ttl_ms is None else int(ttl_ms) / 1000, partition_by,
        )  # fmt: skip
        return keyed or partition_unit(None if partition_by is None else partition_by.strip())
    except (Misused, ValueError) as error:
        raise ArchiveError(in_words_of_configs(f"topic {topic}: {error}", topic)) from None


def is_enabled(configs: Mapping[str, str]) -> bool:
    """Returns whether a table follows the topic with these configs."""
    return _is_true(configs, ENABLE)


def in_words_of_configs(text: str, topic: str) -> str:
    """An error with the topic's configs in place of the options of `odradek archive` that it names."""
    text = text.replace(f"--table {topic}=NAME", f"set {NAME}=NAME of the topic")
    for option, config in _CONFIG_OF.items():
        text = text.replace(option, config)
    return text


def _is_true(configs: Mapping[str, str], name: str) -> bool:
    return configs.get(name, "").strip().lower() == _TRUE
