"""Comparisons of fields in a JSON filter, such as `@.total >= 10 && @.of.name == 'ada'`.

A document that does not pass them is not selected; the filter itself decides on the others, in ten times the time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...records.contents import Content

_NAME = r"(?:\.[A-Za-z_]\w*|\['[^'\\]*'\]|\[\d+\])"
_NAMES = re.compile(r"\.(?P<plain>[A-Za-z_]\w*)|\['(?P<quoted>[^'\\]*)'\]|\[(?P<index>\d+)\]")
_COMPARISON = re.compile(
    rf"\s*@(?P<path>{_NAME}+)\s*(?P<operator>==|<=|>=|<|>)\s*"
    rf"(?:'(?P<single>[^'\\]*)'|\"(?P<double>[^\"\\]*)\"|(?P<number>-?(?:0|[1-9]\d{{0,17}})(?:\.\d{{1,15}})?))\s*"
)
#: The signs of the difference between a field and a literal for which an operator may hold.
_SIGNS = {"==": (0,), "<": (-1,), ">": (1,), "<=": (-1, 0), ">=": (0, 1)}
#: A field that exists or differs. Any other part could be an alternative (`or`, a comma) to all of the filter.
_OTHER = re.compile(rf"\s*@{_NAME}+\s*(?:!=\s*(?:'[^'\\]*'|\"[^\"\\]*\"|-?[\d.]+|true|false|null)\s*)?")


class Comparison(NamedTuple):
    """A field, by names and indexes, and the text or the number to which it is compared."""

    path: Sequence[str | int]
    operator: str
    literal: str | int | float

    def may_hold(self, document: Content) -> bool:
        """False is certain: the document has no such field, or it is another value."""
        for name in self.path:
            if isinstance(document, dict) and str(name) in document:
                document = document[str(name)]  # an index is a name, too
            elif isinstance(document, list) and isinstance(name, int) and name < len(document):
                document = document[name]
            else:
                return False
        return _sign(document, self.literal) in _SIGNS[self.operator]


def _sign(value: Content, literal: str | int | float) -> int | None:
    """The sign of the difference; None for values of which none is larger."""
    if isinstance(value, str) and isinstance(literal, str):
        return (value > literal) - (value < literal)
    if isinstance(value, int | float) and isinstance(literal, int | float):
        return (value > literal) - (value < literal)
    return None


def comparisons_in(where: str) -> list[Comparison]:
    """Comparisons that hold for each document which a JSON filter selects; none where that is not certain."""
    parts = where.split("&&")
    if any(one.count("'") % 2 or one.count('"') % 2 for one in parts):
        return []
    matches = [_COMPARISON.fullmatch(part) for part in parts]
    if any(match is None and _OTHER.fullmatch(part) is None for match, part in zip(matches, parts, strict=True)):
        return []
    return [_comparison(match) for match in matches if match is not None]


def _comparison(match: re.Match[str]) -> Comparison:
    path = [
        int(one["index"]) if one["index"] is not None else one["plain"] or one["quoted"] or ""
        for one in _NAMES.finditer(match["path"])
    ]
    number = match["number"]
    if number is None:
        return Comparison(path, match["operator"], match["single"] or match["double"] or "")
    return Comparison(path, match["operator"], float(number) if "." in number else int(number))
