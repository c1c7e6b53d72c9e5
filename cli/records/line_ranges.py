"""Lines of an input by number, from 1: those that `--from-line` names, in the words in which `produce` names them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from ...client.user_errors import Misused

_PART = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


class Lines(NamedTuple):
    """Ranges of lines, each with its last, and all lines from `rest` on."""

    rest: int = 1
    ranges: tuple[tuple[int, int], ...] = ()

    def __contains__(self, line: object) -> bool:
        if not isinstance(line, int):
            return False
        return line >= self.rest or any(first <= line <= last for first, last in self.ranges)

    def __str__(self) -> str:
        return ",".join([*map(range_text, self.ranges), str(self.rest)])


ALL = Lines()


def parse_lines(text: str) -> Lines:
    """`51`: from line 51 on; `17,20-25,51`: lines 17 and 20 to 25, too. Raises Misused."""
    found = [_PART.fullmatch(part.strip()) for part in text.split(",")]
    ranges = [(int(one[1]), int(one[2] or one[1])) for one in found if one is not None]
    is_ordered = all(first <= last for first, last in ranges) and all(
        last < after for (_, last), (after, _) in pairwise(ranges)
    )
    if len(ranges) < len(found) or not is_ordered or ranges[0][0] < 1 or ranges[-1][0] != ranges[-1][1]:
        raise Misused(f"--from-line {text!r}: give the number of a line, or more as in 17,20-25,51 (from 51 on)")
    return Lines(ranges[-1][0], tuple(ranges[:-1]))


def ranges_of(lines: Iterable[int]) -> list[tuple[int, int]]:
    """Consecutive lines as their first and last."""
    made: list[tuple[int, int]] = []
    for line in sorted(set(lines)):
        if made and made[-1][1] == line - 1:
            made[-1] = made[-1][0], line
        else:
            made.append((line, line))
    return made


def range_text(lines: tuple[int, int]) -> str:
    return str(lines[0]) if lines[0] == lines[1] else f"{lines[0]}-{lines[1]}"
