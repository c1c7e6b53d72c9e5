"""The end of the metadata log, for parts that read nothing else of it."""

from __future__ import annotations

from typing import NamedTuple


class LogEnd(NamedTuple):
    end_offset: int
