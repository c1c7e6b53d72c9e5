"""Reasons that a connection gives no response, in the words of the node, of TLS or of the system."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from .errors import LoginRejected, NoResponse, NotKafka

if TYPE_CHECKING:
    import ssl

#: The beginning of a TLS record with an alert: the answer of a port with TLS to bytes that are not.
TLS_ALERT = b"\x15\x03"
#: Reasons of OpenSSL for bytes that are not of TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_OWN_CERTIFICATE = "ssl.keystore.location, or ssl.certificate.location and ssl.key.location"
#: Ends of the names of alerts. TLS 1.2 has no alert of its own for a missing certificate.
_ALERTS = {
    "_ALERT_CERTIFICATE_REQUIRED": f"it requires a certificate, and was sent none: set {_OWN_CERTIFICATE}",
    "_ALERT_HANDSHAKE_FAILURE": (
        "it may require a certificate, or other versions or suites of TLS: "
        f"set {_OWN_CERTIFICATE}, or look into the log of the broker"
    ),
    "_ALERT_UNKNOWN_CA": "it does not trust the authority of the certificate that it was sent",
    "_ALERT_CERTIFICATE_EXPIRED": "the certificate that it was sent has expired",
    "_ALERT_CERTIFICATE_REVOKED": "the certificate that it was sent is revoked",
    "_ALERT_BAD_CERTIFICATE": "it does not accept the certificate that it was sent",
    "_ALERT_CERTIFICATE_UNKNOWN": "it does not accept the certificate that it was sent",
    "_ALERT_UNSUPPORTED_CERTIFICATE": "it does not accept certificates of the kind that it was sent",
    "_ALERT_PROTOCOL_VERSION": "it has no version of TLS that this side offers",
}


class Kind(Enum):
    """LOGIN and TLS: one side rejects the other. SECURITY: the port's differs from the client's. REFUSED: no connection.
    ENDED: the node ended the connection without a word. UNSUPPORTED: the node does not have the API. FOREIGN: the port
    speaks another protocol. UNENCODABLE: the request has a value that its field cannot carry.
    """

    LOGIN = 1
    TLS = 2
    SECURITY = 3
    REFUSED = 4
    ENDED = 5
    UNSUPPORTED = 6
    FOREIGN = 7
    UNENCODABLE = 8


class PortSecurity(Enum):
    """The security of a port that differs from the client's."""

    TLS = "expects TLS"
    NO_TLS = "has no TLS"
    LOGIN = "expects a login by SASL"
    NO_LOGIN = "has no login by SASL"


class Fault(NamedTuple):
    """`words` follow `it`, for the log; `security` is that of the port, of the kind SECURITY."""

    kind: Kind
    words: str
    security: PortSecurity | None = None
    #: The SASL mechanisms of a port with a login.
    mechanisms: str = ""


def foreign_fault(why: object) -> Fault:
    return Fault(Kind.FOREIGN, f"it does not speak Kafka's protocol: {why}")


def security_fault(security: PortSecurity, mechanisms: str = "") -> Fault:
    return Fault(Kind.SECURITY, f"it {security.value}", security, mechanisms)


def tls_fault(error: BaseException) -> Fault | None:
    """Returns why the TLS of a connection failed; None for an error that is not TLS's."""
    import ssl  # 20 ms, which a completion without TLS need not wait for

    if isinstance(error, ssl.SSLCertVerificationError):
        return Fault(Kind.TLS, f"its certificate is not trusted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return Fault(Kind.TLS, _words_of(error))
    return None


def _words_of(error: ssl.SSLError) -> str:
    """The other side's alert in words, with the remedy; OpenSSL's name of it stays for who looks it up."""
    reason = error.reason or str(error)
    words = next((words for alert, words in _ALERTS.items() if reason.endswith(alert)), "")
    return f"TLS failed: {words} ({reason})" if words else f"TLS failed: {reason}"


def verdict_of(error: BaseException) -> Fault | None:
    """Returns why the other side rejected the TLS of this one, in an alert; None for an end without one."""
    import ssl

    return None if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) else tls_fault(error)


def handshake_fault(error: OSError) -> Fault:
    """Returns why a handshake of TLS failed. A port without TLS ends the connection, or sends bytes of another protocol."""
    import ssl

    if isinstance(error, ssl.SSLEOFError) or not isinstance(error, ssl.SSLError):
        return security_fault(PortSecurity.NO_TLS)
    found = tls_fault(error)
    assert found is not None
    return security_fault(PortSecurity.NO_TLS) if error.reason in _NO_TLS else found


def protocol_of(*, has_tls: bool, has_login: bool) -> str:
    """Returns the value of security.protocol."""
    return ("SASL_" if has_login else "") + ("SSL" if has_tls else "PLAINTEXT")


def explained(address: str, fault: Fault, *, has_tls: bool, has_login: bool) -> str:
    """Returns the fault with the address and the remedy, for a client with this security."""
    if fault.security is None:
        return f"{address}: {fault.words}"
    now = protocol_of(has_tls=has_tls, has_login=has_login)
    wants_tls = {PortSecurity.TLS: True, PortSecurity.NO_TLS: False}.get(fault.security, has_tls)
    wants_login = {PortSecurity.LOGIN: True, PortSecurity.NO_LOGIN: False}.get(fault.security, has_login)
    remedy = f"set security.protocol={protocol_of(has_tls=wants_tls, has_login=wants_login)}"
    if fault.security is PortSecurity.NO_TLS:
        remedy = f"name a port with TLS, or {remedy}"
    elif fault.security is PortSecurity.NO_LOGIN:
        remedy = f"name a port with SASL, or {remedy}"
    elif fault.security is PortSecurity.LOGIN:
        remedy += f" and a sasl.mechanism of {fault.mechanisms}" if fault.mechanisms else " and a sasl.mechanism"
    return f"{address} {fault.security.value}, and security.protocol is {now}: {remedy}"


def rejection(address: str, fault: Fault, *, has_tls: bool, has_login: bool) -> NoResponse:
    """Returns the error of a port that does not take this client, or that no client of Kafka can use."""
    if fault.kind is Kind.FOREIGN:
        return NotKafka(fault.words)
    return LoginRejected(explained(address, fault, has_tls=has_tls, has_login=has_login))
