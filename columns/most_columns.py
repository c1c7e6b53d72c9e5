"""The limit of the columns of a schema, and the error of one that has more.

The columns of a record come with each field that has it. So a schema of a few lines, in which each record has the one before
twice, has twice as many columns at each level.
"""

from __future__ import annotations

from .errors import InvalidScan

#: Columns of a schema at all levels.
MOST_COLUMNS = 10_000


def too_many_columns(language: str) -> InvalidScan:
    return InvalidScan(
        f"the {language} schema has more than {MOST_COLUMNS} columns, with those of records within records"
    )
