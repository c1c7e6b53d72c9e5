"""Counters of damage whose lines a test looks at."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from odradek.server.runtime.damage_counters import DamageCounters


class NotedDamage(DamageCounters):
    """`said`: the key of each line that a part wants logged, with its words."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[Hashable, str]] = []

    def say(self, key: Hashable, words: str, *arguments: object, level: int = logging.ERROR) -> None:
        super().say(key, words, *arguments, level=level)
        self.said.append((key, words))
