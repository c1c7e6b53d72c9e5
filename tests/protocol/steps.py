"""Runs a generator that works in steps to its end."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")


def result_of(steps: Generator[Any, None, T]) -> T:
    """What the generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            result: T = over.value
            return result
