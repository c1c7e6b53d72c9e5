"""The owners of an archiver's tables (admin/table_owner.py), and the names of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..admin.table_owner import Owner
from ..client.error_kinds import ErrorKind
from .store import ArchiveError

#: Added to the name of a table for the one of its dead-letter records.
DEAD_LETTER_SUFFIX = "_dead_letters"
#: Characters that a folder's name does not have.
_NO_FOLDER = frozenset("/\\")
#: File systems take 255 bytes, with the suffix.
_MOST_NAME_LENGTH = 255 - len(DEAD_LETTER_SUFFIX)


def stored_owner(text: str) -> Owner:
    """The owner of a table by its property. Raises ArchiveError for a text that is none."""
    try:
        return Owner.from_text(text)
    except ValueError as error:
        raise ArchiveError(str(error)) from None


def check_owner(owner: Owner, stored: Owner, table: str) -> None:
    """Raises ArchiveError where the table's stored owner is another one."""
    reason = owner.mismatch(stored, table) or owner.recreation(stored, table)
    if reason is not None:
        raise ArchiveError(f"{reason}; name another table for it: --table {owner.topic}=NAME")


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


def namespace_parts(namespace: str) -> tuple[str, ...]:
    """The parts of a namespace of tables, which are folders of a warehouse. Raises ArchiveError for a text that is none."""
    parts = tuple(namespace.split("."))
    if not all(one.strip() and one.isprintable() and not set(one) & _NO_FOLDER for one in parts):
        raise ArchiveError(
            f"{namespace!r} is not a namespace of tables: it is a name, or several with dots between them, without / and \\",
            ErrorKind.MISUSED,
        )
    return parts


def chosen_names(topics: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """The table of each topic: the given name, or the default one. Raises ArchiveError where two topics have one table."""
    unknown = sorted(set(given) - set(topics))
    if unknown:
        raise ArchiveError(f"--table names topic {unknown[0]}, which is not archived here")
    names = {topic: checked_name(given.get(topic, table_name(topic))) for topic in topics}
    taken: dict[str, str] = {}
    for topic, name in names.items():
        for one in (name, dead_letter_name(name)):
            other = taken.setdefault(one, topic)
            if other != topic:
                raise ArchiveError(
                    f"topics {other} and {topic} have one table, {one}: name another one: --table {topic}=NAME"
                )
    return names
