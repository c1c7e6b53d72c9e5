"""Mapping of names to principals.

`ssl.principal.mapping.rules`: how the name in a client's certificate becomes the name of its principal (KIP-371).

A rule is `DEFAULT`, the name as it is, or `RULE:pattern/replacement/` with `L` or `U` at its end for lower or upper
case. Rules are separated by commas; the first whose pattern matches the whole name decides. In a replacement `$1`
is the first group of the pattern. The parser takes what Kafka's SslPrincipalMapper takes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...metadata.configs import InvalidConfig
from .java_patterns import expanded

_MAPPING_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_MAPPING_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_MAPPING_RULE)


class NoMatchingRule(ValueError):
    """No rule applies to a name: the client is not authenticated."""


class _MappingRule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str
    case: str


class PrincipalMapping:
    """The rules of a broker. Raises InvalidConfig for a rule that is none."""

    def __init__(self, rules: str) -> None:
        self._text = rules
        self._rules: list[_MappingRule | None] = []
        for text in _split(rules):
            found = _PARSER.match(text)
            if found is None or found.end() != len(text):
                rest = text[found.end() if found else 0 :]
                raise InvalidConfig(
                    f"ssl.principal.mapping.rules: Invalid rule: `{text}`, unmatched substring: `{rest}`"
                )
            if found.group(1) is not None:
                self._rules.append(None)
            elif found.group(2) is not None:
                self._rules.append(_MappingRule(_compiled(found.group(2)), found.group(3), found.group(4)))

    def name_of(self, distinguished_name: str) -> str:
        """Raises NoMatchingRule."""
        for rule in self._rules:
            if rule is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name):
                return _applied(rule, distinguished_name)
        raise NoMatchingRule(f"No rules apply to {distinguished_name}, rules {self._text}")


def _split(rules: str) -> list[str]:
    """The texts of the rules; Java's matcher goes on one character after an empty match, as `finditer` does."""
    return [found.group(1) for found in _SPLITTER.finditer(rules.strip())]


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidConfig(f"ssl.principal.mapping.rules: {pattern} is not a valid pattern: {error}") from None


def _applied(rule: _MappingRule, name: str) -> str:
    found = rule.pattern.sub(lambda match: expanded(match, rule.replacement), name)
    return {"L": found.lower, "U": found.upper}.get(rule.case, lambda: found)()
