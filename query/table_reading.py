"""How a query reads tables, as its options name it."""

from __future__ import annotations

from typing import NamedTuple

from ..columns.value_schema import ValueSchema


class TableReading(NamedTuple):
    """The tables' namespace, the isolation level and the values of their archive, and whether bytes are shown as text."""

    namespace: str
    isolation_level: str
    values: ValueSchema | None
    as_text: bool
