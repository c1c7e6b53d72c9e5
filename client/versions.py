"""The version in which a request is sent. The module imports nothing: an administrator has it without the event loop."""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """The highest version of a request that both sides have, within these."""

    least: int = 0
    most: int = 0x7FFF


#: None stands for the highest that both sides have.
Version = int | Bounds | None
