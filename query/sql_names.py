"""Names that SQL takes for one: topics and fields that differ only in the case of ASCII letters.

DuckDB would replace the first topic by the second, and give the first field in place of the second, without an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from ..client.user_errors import Misused

if TYPE_CHECKING:
    import pyarrow.dataset as ds

#: Each takes fields of a struct without their names, and not those whose name is taken.
_EXPANSIONS = re.compile(r"\bunnest\b|\bstruct_extract_at\b|\.\s*\*", re.IGNORECASE)
_JSON_PATH = re.compile(r"'\$[^']*'")


def check_topics(names: Iterable[str]) -> None:
    """Raises Misused for topics whose names are one in SQL."""
    for other, name in _pairs(names):
        raise Misused(f"SQL has one name for the topics {other} and {name}: query one of them at a time")


def check_fields(sql: str, datasets: Mapping[str, ds.Dataset]) -> None:
    """Raises Misused for a statement that names fields whose names are one in SQL, or that makes columns of them."""
    named = _JSON_PATH.sub("", sql)
    for table, dataset in datasets.items():
        for path, other, name in _fields(dataset.schema, ""):
            if _EXPANSIONS.search(named) or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", named, re.IGNORECASE):
                raise Misused(
                    f"SQL has one name for the fields {path}{other} and {path}{name} of {table}: a path of JSON tells them "
                    f"apart, such as to_json(value)->>'$.{name}'"
                )


def _fields(fields: Iterable[pa.Field], path: str) -> Iterator[tuple[str, str, str]]:
    """The pairs of fields at all levels: the path to them, and both names."""
    parts = list(fields)
    for other, name in _pairs(one.name for one in parts):
        yield path, other, name
    for one in parts:
        yield from _within(one.type, f"{path}{one.name}")


def _within(kind: pa.DataType, path: str) -> Iterator[tuple[str, str, str]]:
    if pa.types.is_struct(kind):
        yield from _fields(kind, f"{path}.")
    elif pa.types.is_map(kind):
        yield from _within(kind.key_type, path)
        yield from _within(kind.item_type, path)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _within(kind.value_type, path)


def _pairs(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    taken: dict[bytes, str] = {}
    for name in names:
        other = taken.setdefault(name.encode("utf-8", "surrogatepass").lower(), name)
        if other != name:
            yield other, name
