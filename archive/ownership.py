"""Topics that tables belong to: a table has the records, or the dead-letter records, of one topic of one cluster.

The owner is a property of the table, from the commit that creates it on. It is compared before anything is written or
deleted, since names are no proof: `my.orders` and `my-orders` have one default name, a catalog may fold upper case,
`orders-dead-letters` has the name that the dead-letter records of `orders` need, two clusters have topics of one name, and
a topic may be deleted and created again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from ..client.reasons import reason_of
from .store import ArchiveError

#: The property of Iceberg tables, and the member of Parquet's manifest, with the text of an owner.
OWNER = "odradek.owner"
#: Added to the name of a table for the one of its dead-letter records.
DEAD_LETTER_SUFFIX = "_dead_letters"
#: File systems take 255 bytes, with the suffix.
_MOST_NAME_LENGTH = 255 - len(DEAD_LETTER_SUFFIX)


class Role(StrEnum):
    """Contents of a table."""

    rows = "records"
    dead_letters = "dead-letter records"
    #: Tables of `odradek.spark.latest`, which writes the same property.
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
        """Raises ArchiveError for a text that is none."""
        try:
            found = json.loads(text)
            return cls(str(found["topic"]), str(found["cluster_id"]), str(found["topic_id"]), Role(found["role"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ArchiveError(f"the property {OWNER} is damaged: {reason_of(error)}") from None

    def known_with(self, stored: Owner) -> Owner:
        """This owner, with the ids of a stored one where this one lacks them."""
        return replace(self, cluster_id=self.cluster_id or stored.cluster_id, topic_id=self.topic_id or stored.topic_id)

    def check(self, stored: Owner, table: str) -> None:
        """Raises ArchiveError where the table's stored owner is another one."""
        advice = f"name another table for it: --table {self.topic}=NAME"
        if (stored.topic, stored.role) != (self.topic, self.role):
            raise ArchiveError(
                f"table {table} has the {stored.role} of topic {stored.topic}, not the {self.role} of topic "
                f"{self.topic}; {advice}"
            )
        if _differ(stored.cluster_id, self.cluster_id):
            raise ArchiveError(
                f"table {table} has the {stored.role} of topic {stored.topic} of cluster {stored.cluster_id}, and this is "
                f"cluster {self.cluster_id}; {advice}"
            )
        if _differ(stored.topic_id, self.topic_id):
            raise ArchiveError(
                f"topic {self.topic} was deleted and created again since table {table} began: its id was "
                f"{stored.topic_id} and is {self.topic_id}; {advice}"
            )


def _differ(text: str, other: str) -> bool:
    return bool(text and other and text != other)


def table_name(topic: str) -> str:
    """The default name of a topic's table: letters, digits and underscores, which SQL takes without quotes."""
    return "".join(one if one.isalnum() and one.isascii() else "_" for one in topic)


def dead_letter_name(name: str) -> str:
    return f"{name}{DEAD_LETTER_SUFFIX}"


def checked_name(name: str) -> str:
    """Raises ArchiveError for a name that is no table's, or not one folder's."""
    if not name or len(name) > _MOST_NAME_LENGTH or name != table_name(name):
        raise ArchiveError(
            f"{name!r} is not a name of a table: it takes letters, digits and underscores, {_MOST_NAME_LENGTH} at most; "
            "--table TOPIC=NAME gives a topic's table another name"
        )
    return name


def chosen_names(topics: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """The table of each topic: the given name, or the default one. Raises ArchiveError where two topics have one table."""
    unknown = sorted(set(given) - set(topics))
    if unknown:
        raise ArchiveError(f"--table names topic {unknown[0]}, which is not archived here")
    names = {topic: checked_name(given.get(topic) or table_name(topic)) for topic in topics}
    taken: dict[str, str] = {}
    for topic, name in names.items():
        for one in (name, dead_letter_name(name)):
            other = taken.setdefault(one, topic)
            if other != topic:
                raise ArchiveError(
                    f"topics {other} and {topic} have one table, {one}: name another one: --table {topic}=NAME"
                )
    return names
