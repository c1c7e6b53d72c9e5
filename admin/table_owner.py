"""Topics that tables belong to: a table has the records, or the dead-letter records, of one topic of one cluster.

The owner is a property of the table, from the commit that creates it on. It is compared before anything is written or
deleted, since names are no proof: `my.orders` and `my-orders` have one default name, a catalog may fold upper case,
`orders-dead-letters` has the name that the dead-letter records of `orders` need, two clusters have topics of one name, and
a topic may be deleted and created again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from uuid import UUID

from ..client.reasons import reason_of
from ..protocol.uuids import uuid_to_text

#: The property of Iceberg tables, and the member of Parquet's manifest, with the text of an owner.
OWNER = "odradek.owner"


class Role(StrEnum):
    """Contents of a table."""

    rows = "records"
    dead_letters = "dead-letter records"
    latest = "latest records"


@dataclass(frozen=True)
class Owner:
    """`cluster_id` and `topic_id` are "" where a cluster, or an earlier release, does not name them."""

    topic: str
    cluster_id: str = ""
    topic_id: str = ""
    role: Role = Role.rows

    @property
    def of_dead_letters(self) -> Owner:
        return replace(self, role=Role.dead_letters)

    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Owner:
        """Raises ValueError, with words for a user, for a text that is none."""
        try:
            found = json.loads(text)
            topic_id = kafka_id(str(found["topic_id"]))
            return cls(str(found["topic"]), str(found["cluster_id"]), topic_id, Role(found["role"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"the property {OWNER} is damaged: {reason_of(error)}") from None

    def known_with(self, stored: Owner) -> Owner:
        """This owner, with the ids of a stored one where this one lacks them."""
        return replace(self, cluster_id=self.cluster_id or stored.cluster_id, topic_id=self.topic_id or stored.topic_id)

    def mismatch(self, stored: Owner, table: str) -> str | None:
        """The reason why a table with a stored owner is not this one's: another topic, role or cluster; None without one."""
        if (stored.topic, stored.role) != (self.topic, self.role):
            return f"table {table} has the {stored.role} of topic {stored.topic}, not the {self.role} of topic {self.topic}"
        if _differ(stored.cluster_id, self.cluster_id):
            return (
                f"table {table} has the {stored.role} of topic {stored.topic} of cluster {stored.cluster_id}, and this is "
                f"cluster {self.cluster_id}"
            )
        return None

    def recreation(self, stored: Owner, table: str) -> str | None:
        """The words for a topic that was created again since the stored owner's; None for the same topic."""
        if not _differ(stored.topic_id, self.topic_id):
            return None
        return (
            f"topic {self.topic} was deleted and created again since table {table} began: its id was "
            f"{stored.topic_id} and is {self.topic_id}"
        )


def kafka_id(text: str) -> str:
    """A topic's id in Kafka's format; tables of latest records have it with hyphens, by earlier releases."""
    with suppress(ValueError):
        return uuid_to_text(UUID(text).bytes)
    return text


def _differ(text: str, other: str) -> bool:
    return bool(text and other and text != other)
