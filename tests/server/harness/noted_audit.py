"""The audit log of a node, which notes its lines and writes none."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from odradek.server.access.audit import AuditLog

from tests.server.harness.set_clock import SetClock


class NotedAudit(AuditLog):
    """`levels`: the levels of the events that it notes. `lines`: the fields of each, with "level", "kind" and "text"."""

    def __init__(self) -> None:
        super().__init__(SetClock())
        self.levels = {logging.INFO}
        self.lines: list[dict[str, Any]] = []
        self.writes = self._notes  # type: ignore[method-assign]

    def _notes(self, level: int) -> bool:
        return level in self.levels

    def write(self, level: int, kind: str, text: str, fields: Mapping[str, str | int]) -> None:
        self.lines.append({"level": level, "kind": kind, "text": text, **fields})
