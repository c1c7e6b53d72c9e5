"""Runs a stepwise generator to completion."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")


def result_of(steps: Generator[Any, None, T]) -> T:
    """Returns the return value of the generator."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            result: T = over.value
            return result
