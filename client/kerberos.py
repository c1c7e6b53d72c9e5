"""The client's part of SASL GSSAPI (RFC 4752): Kerberos by the library of the system, through the package `gssapi`.

After the tokens of the GSS-API the server offers security layers and the client chooses one. There is no layer: as in
Kafka, TLS protects a connection. An initiator asks the key distribution center, and runs on a thread.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from ..extras import install_command
from ..metadata.configs import InvalidConfig
from .sasl import AuthenticationFailed

if TYPE_CHECKING:
    from types import ModuleType


#: The layer, then the largest message that the server takes in one: none (RFC 4752, section 3.3).
NO_LAYER = 1
OFFER = bytes((NO_LAYER, 0, 0, 0))
_ids = itertools.count(1)


def library() -> ModuleType:
    """Returns the package for the GSS-API. Raises InvalidConfig where it is not installed."""
    try:
        import gssapi
    except ImportError as error:
        raise InvalidConfig(
            f"GSSAPI (Kerberos) needs a package that is not installed: {install_command('kerberos')} ({error})"
        ) from None
    return gssapi


def words_of(error: Exception) -> str:
    """Returns the library's words, which have no secret."""
    text = str(error).partition(": ")[2] or type(error).__name__
    return " ".join(text.split())


def credentials_of(principal: str, usage: str, store: dict[str, str]) -> Any:
    gssapi = library()
    name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    return gssapi.Credentials(name=name, usage=usage, mechs=[gssapi.MechType.kerberos], store=store)


class KerberosLogin(NamedTuple):
    """The principal of a login at a node's `service`; "" for that of the tickets that the user has."""

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
                creds=credentials_of(login.username, "initiate", store) if login.username else None,
                mech=gssapi.MechType.kerberos,
                flags=flags,
                usage="initiate",
            )
            return bytes(self._context.step())
        except gssapi.exceptions.GSSError as error:
            raise AuthenticationFailed(f"no ticket of {login.username} for it: {words_of(error)}") from None

    def respond(self, challenge: bytes) -> bytes | None:
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
        if len(offer) != len(OFFER) or not offer[0] & NO_LAYER:
            raise AuthenticationFailed("it offers only security layers, which Odradek does not support")
        self._has_chosen = True
        return bytes(
            context.wrap(OFFER + (self._login.username or str(context.initiator_name)).encode(), False).message
        )
