"""A leader that notes what its followers fetch, on a log that the test interrupts."""

from __future__ import annotations

from typing import Any

from tests.server.harness.hosted import Hosted
from tests.server.harness.scripted_log import ScriptedLog


class NotedFetches(Hosted):
    """`fetches`: replica and offset of each fetch of a follower; None while they are not noted."""

    log: ScriptedLog
    fetches: list[tuple[int, int]] | None = None

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, log_class=ScriptedLog, **options)

    def follower_fetched(self, replica: int, offset: int, *rest: Any) -> None:
        super().follower_fetched(replica, offset, *rest)
        if self.fetches is not None:
            self.fetches.append((replica, offset))
