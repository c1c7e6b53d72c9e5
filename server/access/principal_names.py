"""Names of principals: the subjects of certificates, and the rules that make names of them and of Kerberos principals.

- `expanded`: expands the replacement text of a regular expression as Java does.
- `subject_name`: the name of a certificate's subject as Java prints it.
- `PrincipalMapping`: makes the name of a principal of it.
- `ShortNames`: makes the name of a user of a Kerberos principal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.configs import InvalidConfig

if TYPE_CHECKING:
    from cryptography.x509 import Name, NameAttribute, RelativeDistinguishedName


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


# ---- names of subjects
#
# The texts are those of `X500Principal.getName()`, which is RFC 2253. Kafka's principals are these texts, so a rule
# that was written for one matches here.

#: The attribute types that RFC 2253 has a keyword for; Java prints all others as numbers with the value in hexadecimal.
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANK = " \r"
#: Clients connect again and again with the same certificates; one of 2 KB takes 0.1 ms to read.
_KEPT_SUBJECTS = 256


@lru_cache(_KEPT_SUBJECTS)
def subject_name(der: bytes) -> str:
    """Returns the subject of a certificate in DER. Raises ValueError."""
    from cryptography.x509 import load_der_x509_certificate

    return rfc2253(load_der_x509_certificate(der).subject)


def rfc2253(name: Name) -> str:
    """Returns the last relative name first; the attributes of one relative name are joined by `+`."""
    return ",".join(_relative(rdn) for rdn in reversed(list(name.rdns)))


def _relative(rdn: RelativeDistinguishedName) -> str:
    return "+".join(_attribute(attribute) for attribute in rdn)


def _attribute(attribute: NameAttribute[str | bytes]) -> str:
    oid = attribute.oid.dotted_string
    if oid not in _KEYWORDS:
        return f"{oid}=#{_encoded(attribute).hex()}"
    return f"{_KEYWORDS[oid]}={_escaped(attribute.value)}"


def _encoded(attribute: NameAttribute[str | bytes]) -> bytes:
    """The value in DER, cut out of the encoding of a name that has this attribute only."""
    from cryptography.x509 import Name

    encoded = Name([attribute]).public_bytes()
    for _ in range(3):  # the name, the set of attributes, the attribute
        encoded = _content(encoded)
    type_end = 2 + encoded[1]
    return encoded[type_end:]


def _content(encoded: bytes) -> bytes:
    """The content of a DER value: what follows its tag and length."""
    length = encoded[1]
    return encoded[2:] if length < 0x80 else encoded[2 + (length & 0x7F) :]


def _escaped(value: str | bytes) -> str:
    text = value if isinstance(value, str) else value.decode(errors="replace")
    shown = "".join(f"\\{one}" if one in _ESCAPED else "\\00" if one == "\0" else one for one in text)
    body = shown.strip(_BLANK)
    if not body:
        return "".join(f"\\{one}" for one in shown)
    start = shown.index(body)
    end = start + len(body)
    before, after = shown[:start], shown[end:]
    return "".join(f"\\{one}" for one in before) + body + "".join(f"\\{one}" for one in after)


# ---- mapping of names to principals
#
# `ssl.principal.mapping.rules`: how the name in a client's certificate becomes the name of its principal (KIP-371).
#
# A rule is `DEFAULT`, the name as it is, or `RULE:pattern/replacement/` with `L` or `U` at its end for lower or upper
# case. Rules are separated by commas; the first whose pattern matches the whole name decides. In a replacement `$1`
# is the first group of the pattern. The parser takes what Kafka's SslPrincipalMapper takes.


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


# ---- names of Kerberos principals
#
# `sasl.kerberos.principal.to.local.rules`: how a Kerberos principal becomes the name of a user.
#
# A rule is `DEFAULT`, the first component of a principal of the default realm, or
# `RULE:[n:format](pattern)s/from/to/g` with `/L` or `/U` at its end for lower or upper case. In a format `$0` is the
# realm and `$1` the first component. The first rule that applies decides. The rules are those of Kafka's
# KerberosShortNamer, which are Hadoop's.

SHORT_NAME_RULES = "sasl.kerberos.principal.to.local.rules"
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

    def parameter(found: re.Match[str]) -> str:
        number = int(found.group(1) or -1)
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
