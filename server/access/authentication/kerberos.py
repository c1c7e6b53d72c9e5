"""SASL GSSAPI (RFC 4752): Kerberos by the library of the system, through the package `gssapi`.

After the tokens of the GSS-API the server offers security layers and the client chooses one. There is no layer: as
in Kafka, TLS protects a connection. An acceptor needs its keytab and no server, so it may run on the event loop; an
initiator asks the key distribution center, and runs on a thread.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ....metadata.configs import InvalidConfig
from ..java_replacement import expanded
from .sasl import AuthenticationFailed, Identity

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


#: The layer, then the largest message that the server takes in one: none (RFC 4752, section 3.3).
_NO_LAYER = 1
_OFFER = bytes((_NO_LAYER, 0, 0, 0))
_ids = itertools.count(1)


def library() -> Any:
    """Returns the package for the GSS-API. Raises InvalidConfig where it is not installed."""
    try:
        import gssapi
    except ImportError as error:
        raise InvalidConfig(
            f"GSSAPI (Kerberos) needs a package that is not installed: pip install 'odradek[kerberos]' ({error})"
        ) from None
    return gssapi


def words_of(error: Exception) -> str:
    """Returns the library's words, which have no secret."""
    text = str(error).partition(": ")[2] or type(error).__name__
    return " ".join(text.split())


def default_realm() -> str:
    """Returns the default realm of the system's Kerberos configuration; "" if there is none."""
    gssapi = library()
    try:
        name = gssapi.Name("anyone", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).rpartition("@")[2]


def _credentials(principal: str, usage: str, store: dict[str, str]) -> Any:
    gssapi = library()
    name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    return gssapi.Credentials(name=name, usage=usage, mechs=[gssapi.MechType.kerberos], store=store)


class KerberosServer:
    """One exchange. `credentials`: those of the acceptor."""

    def __init__(self, credentials: Any, names: ShortNames) -> None:
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
        return bytes(context.wrap(_OFFER, False).message)

    def _chosen(self, token: bytes) -> bytes:
        """The client's choice, and the name as which it wants to act, which Kafka does not look at either."""
        choice: bytes = self._context.unwrap(token).message
        if len(choice) < len(_OFFER) or choice[0] != _NO_LAYER:
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
        credentials = _credentials(principal, "accept", {"keytab": keytab} if keytab else {})
    except gssapi.exceptions.GSSError as error:
        raise InvalidConfig(f"GSSAPI: no key of {principal}: {words_of(error)}") from None
    return lambda: KerberosServer(credentials, names)


class KerberosLogin(NamedTuple):
    """The principal of this node's login at another node's `service`."""

    username: str
    keytab: str | None
    service: str
    #: Where tickets are kept, in the memory of this process.
    tickets: str
    mechanism: str = "GSSAPI"
    may_wait: bool = True

    def client(self, host: str) -> KerberosClient:
        return KerberosClient(self, host)


def kerberos_login(principal: str, keytab: str | None, service: str) -> KerberosLogin:
    """Raises InvalidConfig where the package is not installed."""
    library()
    return KerberosLogin(principal, keytab, service, f"MEMORY:odradek-{next(_ids)}")


class KerberosClient:
    """One exchange of the client, see SaslClient."""

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self.is_complete = False
        self._login = login
        self._host = host
        self._context: Any = None
        self._has_chosen = False

    def first(self) -> bytes:
        gssapi, login = library(), self._login
        try:
            store = {"ccache": login.tickets} | ({"client_keytab": login.keytab} if login.keytab else {})
            flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
            self._context = gssapi.SecurityContext(
                name=gssapi.Name(f"{login.service}@{self._host}", gssapi.NameType.hostbased_service),
                creds=_credentials(login.username, "initiate", store),
                mech=gssapi.MechType.kerberos,
                flags=flags,
                usage="initiate",
            )
            return bytes(self._context.step())
        except gssapi.exceptions.GSSError as error:
            raise AuthenticationFailed(f"no ticket of {login.username} for it: {words_of(error)}") from None

    def answer(self, challenge: bytes) -> bytes | None:
        try:
            return self._answered(challenge)
        except library().exceptions.GSSError as error:
            raise AuthenticationFailed(f"its Kerberos token is not valid: {words_of(error)}") from None

    def _answered(self, challenge: bytes) -> bytes | None:
        context = self._context
        if not context.complete:
            return context.step(challenge) or b""
        if self._has_chosen:
            self.is_complete = True
            return None
        offer = context.unwrap(challenge).message
        if len(offer) != len(_OFFER) or not offer[0] & _NO_LAYER:
            raise AuthenticationFailed("it offers only security layers, which Odradek does not support")
        self._has_chosen = True
        return bytes(context.wrap(_OFFER + self._login.username.encode(), False).message)
