"""Python processes of Spark that start late: Spark gives each 10 s, whatever else the machine does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

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


def is_late(text: str) -> bool:
    return _LATE.search(text) is not None
