"""Loads a user's own classes where Kafka loads Java classes, and expands replacement texts as Java does.

- `load_class`: loads the class of a key whose value is `python:package.module:Name`, where Kafka loads a Java class.
- `expanded`: expands the replacement text of a regular expression as Java does: `$1`, and a backslash before a
  literal character.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from ...metadata.configs import InvalidConfig

PREFIX = "python:"


@runtime_checkable
class Configurable(Protocol):
    """A class of a user's own that reads the node's properties."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Takes the node's own properties. An exception ends the start."""


def is_own_class(text: str) -> bool:
    """Returns whether the value of a class's key names a Python class."""
    return text.startswith(PREFIX)


def load_class(key: str, text: str, interface: type[Any], properties: Mapping[str, str] | None = None) -> Any:
    """Returns an instance of the class. `interface`: a runtime-checkable protocol. Raises InvalidConfig.

    With `properties`, a class that is Configurable is configured by them.
    """
    module, colon, name = text.removeprefix(PREFIX).rpartition(":")
    if not is_own_class(text) or not colon:
        raise InvalidConfig(f"{key}={text}: name your own class as python:package.module:Name")
    try:
        made = getattr(import_module(module), name)()
    except Exception as failure:
        raise InvalidConfig(f"{key}={text}: cannot be created: {type(failure).__name__}: {failure}") from failure
    if not isinstance(made, interface):
        raise InvalidConfig(f"{key}={text}: does not implement {interface.__name__}")
    if properties is not None and isinstance(made, Configurable):
        try:
            made.configure(properties)
        except Exception as failure:
            raise InvalidConfig(f"{key}={text}: configure failed: {failure}") from failure
    return made


# ---- replacement texts of Java's regular expressions

_PART = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


def expanded(match: re.Match[str], replacement: str) -> str:
    """Returns what a match is replaced by, as `Matcher.replaceAll` does.

    `$12` is group 1 and a `2` where there is no group 12; a group that does not exist stays as it is written.
    """
    groups = match.re.groups

    def part(found: re.Match[str]) -> str:
        if found.group(1) is not None:
            return found.group(1)
        digits = found.group(2)
        length = len(digits)
        while length > 1 and int(digits[:length]) > groups:
            length -= 1
        number = int(digits[:length])
        if number > groups:
            return found.group()
        return (match.group(number) or "") + digits[length:]

    return _PART.sub(part, replacement)
