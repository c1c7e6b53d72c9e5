"""Replacement texts of Java's regular expressions."""

from __future__ import annotations

import re

_PART = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


def expanded(match: re.Match[str], replacement: str) -> str:
    """Returns what a match is replaced by, as `Matcher.replaceAll` does.

    `$12` is group 1 and a `2` where there is no group 12; a group that does not exist stays as it is written.
    """
    groups = match.re.groups

    def part(whole: re.Match[str]) -> str:
        if whole.group(1) is not None:
            return whole.group(1)
        digits = whole.group(2)
        length = len(digits)
        while length > 1 and int(digits[:length]) > groups:
            length -= 1
        number = int(digits[:length])
        if number > groups:
            return whole.group()
        return (match.group(number) or "") + digits[length:]

    return _PART.sub(part, replacement)
