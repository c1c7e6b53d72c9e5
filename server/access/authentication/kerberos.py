"""SASL GSSAPI (RFC 4752): Kerberos by the library of the system, through the package `gssapi`.

After the tokens of the GSS-API the server offers security layers and the client chooses one. There is no layer: as
in Kafka, TLS protects a connection. An acceptor needs its keytab and no server, so it may run on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ....client.kerberos import NO_LAYER, OFFER, credentials_of, library, words_of
from ....client.sasl import AuthenticationFailed
from ....metadata.configs import InvalidConfig
from ..kerberos_names import ShortNames
from ..principal_mapping import NoMatchingRule
from .mechanism import Identity

if TYPE_CHECKING:
    from gssapi import Credentials


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
            response: bytes | None = context.step(token)
            if response or not context.complete:
                return response or b""
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
