"""Masks of sensitive fields: contents that no viewer sees, and no filter can search.

A mask is the name of a field of JSON objects or of a header, with `*` for any characters, or a path of names between dots.
Case does not count. `pattern:EXPRESSION` masks what matches in texts that are not JSON, keys included.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ...cli.client.errors import Misused

if TYPE_CHECKING:
    from ...cli.records.consumed import Content


MASKED = "••••"
_PATTERN = "pattern:"
_MOST_DEPTH = 100


class Pattern(Protocol):
    """An expression of RE2."""

    def sub(self, replacement: Callable[[object], str], text: str, /) -> str: ...


class Masks:
    def __init__(self, masks: Sequence[str]) -> None:
        self._paths = [one.lower().split(".") for one in masks if not one.startswith(_PATTERN)]
        self._patterns = [_compiled(one.removeprefix(_PATTERN)) for one in masks if one.startswith(_PATTERN)]
        if any(not part for path in self._paths for part in path):
            raise Misused("--mask needs a field name, a path such as card.number, or pattern:EXPRESSION")

    def __bool__(self) -> bool:
        return bool(self._paths or self._patterns)

    def value(self, value: Content) -> Content:
        """The decoded key or value with masked fields replaced."""
        if isinstance(value, str):
            return self.text(value)
        return self._inside(value, (), 0) if self else value

    def text(self, text: str) -> str:
        for pattern in self._patterns:
            # A text as the replacement comes out of RE2 with each of its bytes as a character.
            text = pattern.sub(lambda _: MASKED, text)
        return text

    def header(self, name: str, value: str) -> str:
        return MASKED if self._is_masked((name.lower(),)) else self.text(value)

    def _inside(self, value: Content, path: tuple[str, ...], depth: int) -> Content:
        if depth > _MOST_DEPTH:
            return MASKED
        if isinstance(value, dict):
            return {
                name: MASKED
                if self._is_masked((*path, str(name).lower()))
                else self._inside(one, (*path, str(name).lower()), depth + 1)
                for name, one in value.items()
            }
        if isinstance(value, list):
            return [self._inside(one, path, depth + 1) for one in value]
        return self.text(value) if isinstance(value, str) else value

    def _is_masked(self, path: tuple[str, ...]) -> bool:
        """A mask of several names matches the end of the path."""
        return any(
            len(mask) <= len(path) and all(map(fnmatch.fnmatchcase, path[-len(mask) :], mask)) for mask in self._paths
        )


def _compiled(text: str) -> Pattern:
    import re2  # 3 MB: only where a pattern is given

    options = re2.Options()
    options.log_errors = False
    try:
        made: Pattern = re2.compile(text, options)
        return made
    except re2.error as error:
        raise Misused(f"--mask pattern:{text}: {error}") from None
