"""SASL GSSAPI (RFC 4752): Kerberos by the library of the system, through the package `gssapi`.

After the tokens of the GSS-API the server offers security layers and the client chooses one. There is no layer: as
in Kafka, TLS protects a connection. An acceptor needs its keytab and no server, so it may run on the event loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ....client.kerberos import NO_LAYER, OFFER, credentials_of, library, words_of
from ....client.sasl import AuthenticationFailed
from ....metadata.configs import InvalidConfig
from ..plugins import expanded
from .authentication import Identity

if TYPE_CHECKING:
    from gssapi import Credentials


# `sasl.kerberos.principal.to.local.rules`: how a Kerberos principal becomes the name of a user.
#
# A rule is `DEFAULT`, the first component of a principal of the default realm, or
# `RULE:[n:format](pattern)s/from/to/g` with `/L` or `/U` at its end for lower or upper case. In a format `$0` is the
# realm and `$1` the first component. The first rule that applies decides. The rules are those of Kafka's
# KerberosShortNamer, which are Hadoop's.


RULES = "sasl.kerberos.principal.to.local.rules"
_NAME = re.compile(r"([^/@]*)(/([^/@]*))?@([^/@]*)")
_RULE = re.compile(r"(DEFAULT)|RULE:\[(\d*):([^\]]*)](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?")
_PARAMETER = re.compile(r"\$(\d*)")
_NON_SIMPLE = re.compile(r"[/@]")


class NoMatchingRule(ValueError):
    """No rule makes a name of a principal: the client is not authenticated."""


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


class _Rule(NamedTuple):
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
        raise NoMatchingRule(f"no rule of {RULES} applies to {principal}")

    def _applied(self, rule: _Rule | None, parameters: list[str]) -> str | None:
        if rule is None:
            result = parameters[1] if parameters[0] == self._default_realm else None
        else:
            result = _result_of(rule, parameters)
        if result is not None and _NON_SIMPLE.search(result):
            raise NoMatchingRule(f"a rule of {RULES} makes the name {result}, which has a / or @")
        if result is None or rule is None:
            return result
        return {"L": result.lower, "U": result.upper}.get(rule.case, lambda: result)()


def _result_of(rule: _Rule, parameters: list[str]) -> str | None:
    if len(parameters) - 1 != rule.components:
        return None

    def parameter(found: re.Match[str]) -> str:
        number = int(found.group(1) or -1)
        if not 0 <= number < len(parameters):
            raise NoMatchingRule(f"a rule of {RULES} has an invalid parameter: {rule.format}")
        return parameters[number]

    base = _PARAMETER.sub(parameter, rule.format)
    if rule.match is not None and not rule.match.fullmatch(base):
        return None
    if rule.pattern is None:
        return base
    return rule.pattern.sub(lambda found: expanded(found, rule.replacement), base, count=not rule.replaces_all)


def _parsed(text: str) -> _Rule | None:
    """Returns a rule; None for DEFAULT."""
    found = _RULE.match(text)
    if found is None:
        raise InvalidConfig(f"{RULES}: Invalid rule: {text}")
    if found.end() != len(text):
        raise InvalidConfig(f"{RULES}: Invalid rule: `{text}`, unmatched substring: `{text[found.end() :]}`")
    if found.group(1) is not None:
        return None
    try:
        match = re.compile(found.group(5)) if found.group(5) is not None else None
        pattern = re.compile(found.group(7)) if found.group(6) is not None else None
    except re.error as error:
        raise InvalidConfig(f"{RULES}: `{text}` has an invalid pattern: {error}") from None
    return _Rule(
        int(found.group(2) or -1),
        found.group(3),
        match,
        pattern,
        found.group(8) or "",
        found.group(9) is not None,
        found.group(10) or "",
    )


def default_realm() -> str:
    """Returns the default realm of the system's Kerberos configuration; "" if there is none."""
    gssapi = library()
    try:
        name = gssapi.Name("anyone", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).rpartition("@")[2]


class KerberosServer:
    """One exchange. `credentials`: those of the acceptor."""

    def __init__(self, credentials: Credentials, names: ShortNames) -> None:
        self.identity: Identity | None = None
        gssapi = library()
        self._error: type[Exception] = gssapi.exceptions.GSSError
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        self._names = names
        self._has_offered = False

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        try:
            return self._chosen(token) if self._has_offered else self._accepted(token)
        except self._error as error:
            raise AuthenticationFailed(f"Kerberos: {words_of(error)}") from None

    def _accepted(self, token: bytes) -> bytes:
        context = self._context
        if not context.complete:
            answer: bytes | None = context.step(token)
            if answer or not context.complete:
                return answer or b""
        elif token:
            raise AuthenticationFailed("Kerberos: a token where the client has nothing left to send")
        self._has_offered = True
        return bytes(context.wrap(OFFER, False).message)

    def _chosen(self, token: bytes) -> bytes:
        """The client's choice, and the name as which it wants to act, which Kafka does not look at either."""
        choice: bytes = self._context.unwrap(token).message
        if len(choice) < len(OFFER) or choice[0] != NO_LAYER:
            raise AuthenticationFailed("Kerberos: the client chose a security layer that the broker does not offer")
        principal = str(self._context.initiator_name)
        try:
            self.identity = Identity(self._names.short_name(principal), authorization_id=principal)
        except NoMatchingRule as error:
            raise AuthenticationFailed(f"Kerberos: {error}") from None
        return b""


def kerberos_mechanism(principal: str, keytab: str | None, names: ShortNames) -> Callable[[], KerberosServer]:
    """Raises InvalidConfig where the keytab has no key of the principal. Without one it is the system's default."""
    gssapi = library()
    try:
        credentials = credentials_of(principal, "accept", {"keytab": keytab} if keytab else {})
    except gssapi.exceptions.GSSError as error:
        raise InvalidConfig(f"GSSAPI: no key of {principal}: {words_of(error)}") from None
    return lambda: KerberosServer(credentials, names)
