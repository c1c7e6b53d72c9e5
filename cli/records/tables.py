"""Records as a table for each batch, for people."""

from __future__ import annotations

from collections.abc import Sequence

from ...records.consumed import ConsumedRecord
from ...records.contents import Content
from ...records.writing import COLUMNS, cells
from ..output import Output, Table


class Tables:
    """A table for each batch, for people."""

    def write(self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]) -> None:
        rows = [cells(*one) for one in zip(messages, keys, values, strict=True)]
        if rows:
            Output("table").show((), Table("", [name.upper() for name in COLUMNS], rows))

    def end(self) -> None:
        pass
