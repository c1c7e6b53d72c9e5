"""Repeated lines of the log that a test looks at."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from odradek.server.runtime.log_lines import RepeatedLines


class NotedLines(RepeatedLines):
    """`words`: those of all lines. Nothing is written, and no loop is needed."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def log(
        self, logger: logging.Logger, level: int, peer: str, kind: Hashable, words: str, bug: Exception | None = None
    ) -> bool:
        self.words.append(words)
        return True
