"""Names of Kerberos principals.

`sasl.kerberos.principal.to.local.rules`: how a Kerberos principal becomes the name of a user.

A rule is `DEFAULT`, the first component of a principal of the default realm, or
`RULE:[n:format](pattern)s/from/to/g` with `/L` or `/U` at its end for lower or upper case. In a format `$0` is the
realm and `$1` the first component. The first rule that applies decides. The rules are those of Kafka's
KerberosShortNamer, which are Hadoop's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ...metadata.configs import InvalidConfig
from .java_patterns import expanded
from .principal_mapping import NoMatchingRule

SHORT_NAME_RULES: Final = "sasl.kerberos.principal.to.local.rules"
_NAME = re.compile(r"([^/@]*)(/([^/@]*))?@([^/@]*)")
_SHORT_NAME_RULE = re.compile(r"(DEFAULT)|RULE:\[(\d*):([^\]]*)](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?")
_PARAMETER = re.compile(r"\$(\d*)")
_NON_SIMPLE = re.compile(r"[/@]")


class KerberosName(NamedTuple):
    """A principal: `service/host@realm`, `user@realm`, or a bare name."""

    service: str
    host: str | None
    realm: str | None


def parse_name(principal: str) -> KerberosName:
    """Raises ValueError."""
    found = _NAME.fullmatch(principal)
    if found is not None:
        return KerberosName(found.group(1), found.group(3), found.group(4))
    if "@" in principal:
        raise ValueError("a malformed Kerberos principal")
    return KerberosName(principal, None, None)


class _ShortNameRule(NamedTuple):
    components: int
    format: str
    match: re.Pattern[str] | None
    #: The pattern to replace, and its replacement; None if nothing is.
    pattern: re.Pattern[str] | None
    replacement: str
    replaces_all: bool
    case: str


class ShortNames:
    """The rules of a listener. `default_realm`: "" if there is none. Raises InvalidConfig for a rule that is none."""

    def __init__(self, default_realm: str, rules: Sequence[str]) -> None:
        self._default_realm = default_realm
        self._rules = [_parsed(rule) for rule in rules]

    def short_name(self, principal: str) -> str:
        """Raises NoMatchingRule."""
        try:
            name = parse_name(principal)
        except ValueError as error:
            raise NoMatchingRule(str(error)) from None
        if name.realm is None and name.host is None:
            return name.service
        parameters = [name.realm or "", name.service] + ([name.host] if name.host is not None else [])
        for rule in self._rules:
            result = self._applied(rule, parameters)
            if result is not None:
                return result
        raise NoMatchingRule(f"no rule of {SHORT_NAME_RULES} applies to {principal}")

    def _applied(self, rule: _ShortNameRule | None, parameters: list[str]) -> str | None:
        if rule is None:
            result = parameters[1] if parameters[0] == self._default_realm else None
        else:
            result = _result_of(rule, parameters)
        if result is not None and _NON_SIMPLE.search(result):
            raise NoMatchingRule(f"a rule of {SHORT_NAME_RULES} makes the name {result}, which has a / or @")
        if result is None or rule is None:
            return result
        return {"L": result.lower, "U": result.upper}.get(rule.case, lambda: result)()


def _result_of(rule: _ShortNameRule, parameters: list[str]) -> str | None:
    if len(parameters) - 1 != rule.components:
        return None

    def parameter(match: re.Match[str]) -> str:
        number = int(match.group(1) or -1)
        if not 0 <= number < len(parameters):
            raise NoMatchingRule(f"a rule of {SHORT_NAME_RULES} has an invalid parameter: {rule.format}")
        return parameters[number]

    base = _PARAMETER.sub(parameter, rule.format)
    if rule.match is not None and not rule.match.fullmatch(base):
        return None
    if rule.pattern is None:
        return base
    return rule.pattern.sub(lambda found: expanded(found, rule.replacement), base, count=not rule.replaces_all)


def _parsed(text: str) -> _ShortNameRule | None:
    """Returns a rule; None for DEFAULT."""
    found = _SHORT_NAME_RULE.match(text)
    if found is None:
        raise InvalidConfig(f"{SHORT_NAME_RULES}: Invalid rule: {text}")
    if found.end() != len(text):
        raise InvalidConfig(f"{SHORT_NAME_RULES}: Invalid rule: `{text}`, unmatched substring: `{text[found.end() :]}`")
    if found.group(1) is not None:
        return None
    try:
        match = re.compile(found.group(5)) if found.group(5) is not None else None
        pattern = re.compile(found.group(7)) if found.group(6) is not None else None
    except re.error as error:
        raise InvalidConfig(f"{SHORT_NAME_RULES}: `{text}` has an invalid pattern: {error}") from None
    return _ShortNameRule(
        int(found.group(2) or -1),
        found.group(3),
        match,
        pattern,
        found.group(8) or "",
        found.group(9) is not None,
        found.group(10) or "",
    )
