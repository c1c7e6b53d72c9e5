"""A finding of a check, with the advice that follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

ERROR, WARNING = "error", "warning"
#: Findings of one check that are shown; a cluster may have thousands of partitions.
_MOST_SHOWN = 50


class Finding(NamedTuple):
    """`check`: which one found it. `subject`: the file, partition, broker or key. `advice`: what to do."""

    severity: str
    check: str
    subject: str
    words: str
    advice: str


def limited(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings of a check, and one that counts the others."""
    more = 0
    last: Finding | None = None
    for number, one in enumerate(findings):
        if number < _MOST_SHOWN:
            yield one
        else:
            more, last = more + 1, one
    if last is not None:
        yield Finding(last.severity, last.check, f"and {more} more", last.words, last.advice)
