"""A case of an anomaly: its name, its evidence, and whether Kafka's promises allow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .operation import Operation


@dataclass(frozen=True)
class Case:
    anomaly: str
    text: str
    operations: Sequence[Operation] = field(default=(), repr=False)
    is_allowed: bool = False

    def __str__(self) -> str:
        return "\n    ".join([f"{self.anomaly}: {self.text}", *map(str, self.operations[:6])])
