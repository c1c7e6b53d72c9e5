"""The TLS of one listener: its contexts, and the names and principals of its clients' certificates.

- `subject_name`: the name of a certificate's subject as Java prints it.
- `PrincipalMapping`: makes the name of a principal of it.
- `ListenerTls`: the contexts. A new context serves new connections. Those that stand keep theirs.
- `check_replacement`: the checks before contexts are replaced while the broker runs (KIP-226).
"""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ....metadata.configs import BrokerValues, InvalidConfig
from ..plugins import expanded
from .contexts import Stores, check_handshake, client_context, read_stores, server_context
from .settings import TlsSettings, listener_prefix, read_settings

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, Name, NameAttribute, RelativeDistinguishedName


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


_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)


class NoMatchingRule(ValueError):
    """No rule applies to a name: the client is not authenticated."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str
    case: str


class PrincipalMapping:
    """The rules of a broker. Raises InvalidConfig for a rule that is none."""

    def __init__(self, rules: str) -> None:
        self._text = rules
        self._rules: list[_Rule | None] = []
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
                self._rules.append(_Rule(_compiled(found.group(2)), found.group(3), found.group(4)))

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


def _applied(rule: _Rule, name: str) -> str:
    found = rule.pattern.sub(lambda match: expanded(match, rule.replacement), name)
    return {"L": found.lower, "U": found.upper}.get(rule.case, lambda: found)()


# ---- contexts

ANONYMOUS = "User:ANONYMOUS"


@dataclass(frozen=True)
class ListenerTls:
    """The TLS contexts of one configuration of a listener. `server` is None for a listener of other nodes only."""

    settings: TlsSettings
    stores: Stores
    server: ssl.SSLContext | None
    client: ssl.SSLContext = field(repr=False)
    mapping: PrincipalMapping
    #: Modification times of the stores' files, in nanoseconds.
    modified: tuple[int | None, ...]

    def principal_of(self, connection: ssl.SSLObject) -> str:
        """Returns the principal of the peer's certificate, or the anonymous one. Raises ValueError if no rule applies, or
        the certificate gives an empty name.
        """
        der = connection.getpeercert(binary_form=True)
        if der is None:
            return ANONYMOUS
        name = self.mapping.name_of(subject_name(der))
        if not name:
            raise ValueError("the client's certificate gives an empty name")
        return "User:" + name

    def allows_cipher(self, connection: ssl.SSLObject) -> bool:
        """Returns False for a suite of TLS 1.3 that `ssl.cipher.suites` leaves out: Python's ssl offers all of them."""
        suites, cipher = self.settings.cipher_suites, connection.cipher()
        return not suites or cipher is None or connection.version() != "TLSv1.3" or cipher[0] in suites


def make_listener_tls(values: BrokerValues, listener: str, protocol: str, *, is_server: bool) -> ListenerTls:
    """Reads the stores. Raises InvalidConfig, with the name of the listener."""
    try:
        settings = read_settings(values, listener, protocol)
        times = modified(settings)
        stores = read_stores(settings)
        return ListenerTls(
            settings,
            stores,
            server_context(settings, stores) if is_server else None,
            client_context(settings, stores),
            PrincipalMapping(str(values.get(listener_prefix(listener) + "ssl.principal.mapping.rules"))),
            times,
        )
    except InvalidConfig as rejected:
        raise InvalidConfig(f"listener {listener}: {rejected}") from None


def has_other_settings(tls: ListenerTls, values: BrokerValues, protocol: str) -> bool:
    """Raises InvalidConfig."""
    return read_settings(values, tls.settings.listener, protocol) != tls.settings


def has_other_files(tls: ListenerTls) -> bool:
    """Returns True if a file of the stores was written since it was read."""
    return modified(tls.settings) != tls.modified


def modified(settings: TlsSettings) -> tuple[int | None, ...]:
    """Returns when the files of the stores were written, in nanoseconds; None where there is none."""
    return tuple(_time_of(store.location) for store in (settings.key_store, settings.trust_store))


def _time_of(path: str | None) -> int | None:
    try:
        return os.stat(path).st_mtime_ns if path is not None else None  # noqa: PTH116
    except OSError:
        return None


def check_trusts_itself(tls: ListenerTls) -> None:
    """Raises InvalidConfig if nodes with these stores would not trust each other, as Kafka checks it at its start."""
    if tls.server is not None:
        try:
            check_handshake(tls.server, tls.client)
        except ssl.SSLError as error:
            raise InvalidConfig(
                f"listener {tls.settings.listener}: A client SSLEngine created with the provided settings can't connect to "
                f"a server SSLEngine created with those settings. (its truststore must trust its keystore: {_reason(error)})"
            ) from None


def check_replacement(old: ListenerTls, new: ListenerTls, values: BrokerValues, *, is_between_nodes: bool) -> None:
    """Raises InvalidConfig if the new stores may not replace the old ones, with the texts of Kafka's SslFactory."""
    try:
        _check_stores(old.stores, new.stores, values, listener_prefix(old.settings.listener))
        if is_between_nodes and old.server is not None and new.server is not None:
            check_handshake(old.server, new.client)
            check_handshake(new.server, old.client)
    except ssl.SSLError as error:
        raise InvalidConfig(_failed(f"{_reason(error)}: other nodes would not trust it")) from None
    except InvalidConfig as rejected:
        raise InvalidConfig(_failed(str(rejected))) from None


def _failed(why: str) -> str:
    return (
        "Validation of dynamic config update of SSLFactory failed: "
        f"org.apache.kafka.common.config.ConfigException: {why}"
    )


def _reason(error: ssl.SSLError) -> str:
    return str(getattr(error, "verify_message", "") or error.reason or error)


def _check_stores(old: Stores, new: Stores, values: BrokerValues, prefix: str) -> None:
    if old.key is None and new.key is not None:
        raise InvalidConfig("Cannot add SSL keystore to an existing listener for which no keystore was configured.")
    if old.key is not None and new.key is None:
        raise InvalidConfig(
            "Cannot remove the SSL keystore from an existing listener for which a keystore was configured."
        )
    if old.trusted is None and new.trusted is not None:
        raise InvalidConfig("Cannot add SSL truststore to an existing listener for which no truststore was configured.")
    if old.key is None or new.key is None:
        return
    before, after = old.key.chain[0], new.key.chain[0]
    if not values.get(prefix + "ssl.allow.dn.changes") and _is_other_name(before, after):
        raise InvalidConfig(
            "Keystore DistinguishedName does not match:  "
            f"existing={{DN={rfc2253(before.subject)}}}, new={{DN={rfc2253(after.subject)}}}"
        )
    if not values.get(prefix + "ssl.allow.san.changes") and not _names(before) <= _names(after):
        raise InvalidConfig(
            f"Keystore SubjectAltNames do not match:  existing={{SAN={_shown(before)}}}, new={{SAN={_shown(after)}}}"
        )


def _is_other_name(before: Certificate, after: Certificate) -> bool:
    return before.subject != after.subject and rfc2253(before.subject).lower() != rfc2253(after.subject).lower()


def _names(certificate: Certificate) -> frozenset[str]:
    """The alternative names of a certificate."""
    from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName

    try:
        found = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return frozenset()
    return frozenset(f"{type(name).__name__}:{name.value}" for name in found)


def _shown(certificate: Certificate) -> str:
    return f"[{', '.join(sorted(_names(certificate)))}]"
