"""The session of a member of a group."""

from __future__ import annotations

from typing import NamedTuple

from ..timers import Timer


class Session(NamedTuple):
    """The session of a member: its timer, and its length."""

    member_id: str
    timer: Timer
    timeout_ms: int
