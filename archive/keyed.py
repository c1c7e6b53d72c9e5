"""Settings of a keyed table: its key, the form of its records, and the order and life of its rows.

The table has this as a property, so that later processes and `odradek table maintain` do the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ..client.reasons import reason_of
from .key_columns import KeyColumns
from .store import ArchiveError
from .table_partitions import PartitionColumn

#: The property of a table.
KEYED = "odradek.keyed"


class Envelope(StrEnum):
    """Forms of values: the row itself, or a change event with the row in it."""

    none = "none"
    debezium = "debezium"


@dataclass(frozen=True)
class Keyed:
    """`sort_by`: columns by which files are sorted, the key without. `row_ttl_s`: age at which rows are deleted, by the
    timestamp of their record. `partition_by`: of a new table, whose metadata has it from then on.
    """

    key: KeyColumns
    envelope: Envelope = Envelope.none
    sort_by: tuple[str, ...] = field(default=())
    row_ttl_s: float | None = None
    partition_by: tuple[PartitionColumn, ...] = field(default=(), compare=False)

    @property
    def sorted_by(self) -> tuple[str, ...]:
        return self.sort_by or self.key.paths

    def text(self) -> str:
        found: dict[str, object] = {"key": list(self.key.paths), "envelope": self.envelope.value}
        if self.sort_by:
            found["sort_by"] = list(self.sort_by)
        if self.row_ttl_s is not None:
            found["row_ttl_s"] = self.row_ttl_s
        return json.dumps(found, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Keyed:
        """Raises ArchiveError for a text that is none."""
        try:
            found = json.loads(text)
            ttl = found.get("row_ttl_s")
            return cls(
                KeyColumns.named([str(one) for one in found["key"]]), Envelope(found["envelope"]),
                tuple(str(one) for one in found.get("sort_by", ())), None if ttl is None else float(ttl),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ArchiveError(f"the property {KEYED} of the table is damaged: {reason_of(error)}") from None


def keyed_of(properties: Mapping[str, str]) -> Keyed | None:
    """How a table is keyed; None for a table with a row for each record. Raises ArchiveError."""
    text = properties.get(KEYED)
    return None if text is None else Keyed.from_text(text)


def check_keyed(keyed: Keyed | None, stored: Keyed | None, table: str, topic: str) -> None:
    """Raises ArchiveError where a table with rows has another key, or none."""
    wanted, kept = (None if one is None else (one.key, one.envelope) for one in (keyed, stored))
    if wanted == kept:
        return
    if stored is None:
        raise ArchiveError(
            f"table {table} has a row for each record: name another table for the rows of keys: --table {topic}=NAME"
        )
    envelope = "" if stored.envelope is Envelope.none else f" --envelope {stored.envelope}"
    raise ArchiveError(f"table {table} has a row for each key: archive it with --key {stored.key}{envelope}")
