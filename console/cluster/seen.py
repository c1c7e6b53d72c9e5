"""A record as filters see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...records.contents import Content

Headers = Sequence[tuple[str, str | None]]
"""Names and masked texts; None for a null."""


class Seen(Protocol):
    """Masked texts, and the masked value before it became one."""

    @property
    def key(self) -> str | None: ...

    @property
    def value(self) -> str | None: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def document(self) -> Content: ...
