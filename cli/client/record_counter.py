"""The count of records of a topic, by the package of columns: it stands above the command line."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

_COUNTING = "...columns.counting"


def record_counter() -> Callable[[Mapping[str, str], str], int]:
    """Returns the function that counts records of a topic, of a package above this one with dependencies of its own."""
    count: Callable[[Mapping[str, str], str], int] = importlib.import_module(_COUNTING, __package__).count_records
    return count
