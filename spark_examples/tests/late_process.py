"""Python processes of Spark that start late: Spark gives each 10 s, whatever else the machine does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

import pytest
from pyspark.errors import PySparkException

T = TypeVar("T")
DEADLINE_S = 600
_LATE = re.compile(r"Python\s+worker.*connect\s+back", re.DOTALL)


def in_time(runs: Callable[[], T]) -> T:
    """The result of a run; again where a Python process of Spark was late."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return runs()
        except (AssertionError, PySparkException) as failed:
            if not is_late(str(failed)) or time.monotonic() > deadline:
                raise


def error_of(step: Callable[[], object]) -> str:
    """The text of the error that a step ends with, other than that of a late process."""

    def text() -> str:
        with pytest.raises(PySparkException) as raised:
            step()
        if is_late(str(raised.value)):
            raise raised.value
        return str(raised.value)

    return in_time(text)


def is_late(text: str) -> bool:
    return _LATE.search(text) is not None
