"""The security of a port, by a connection of its own: the reason for which a client with another one gets no response.

A port with TLS ends a connection without it, and a port without TLS one with it. A port with SASL ends a connection at the
first request before a login; it names its mechanisms in the response to SaslHandshake. Requests are written as bytes: a
command that has not loaded the codecs need not do so for them.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

from .faults import (
    TLS_ALERT,
    Fault,
    Kind,
    PortSecurity,
    foreign_fault,
    handshake_fault,
    security_fault,
    verdict_of,
)

if TYPE_CHECKING:
    import ssl

#: Requests that every version of Kafka serves: length, API key, version, correlation id, no client id. ApiVersions, then
#: SaslHandshake with the empty name of a mechanism.
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_SASL_HANDSHAKE = struct.pack(">ihhihh", 12, 17, 1, 2, -1, 0)
_LENGTH, _HEADER = struct.Struct(">i"), struct.Struct(">ihi")
_UNSUPPORTED_MECHANISM = 33
#: Limit of either response.
_MOST_BYTES = 1 << 20
#: Characters of the names of mechanisms.
_MOST_CHARACTERS = 200


def fault_of_port(
    address: tuple[str, int], tls: ssl.SSLContext | None, timeout_s: float, *, has_login: bool
) -> Fault | None:
    """Returns how the port's security differs from the client's, or why TLS fails; None where neither is so, or where the
    port sends nothing in time. Raises OSError where it accepts no connection.
    """
    deadline_s = time.monotonic() + timeout_s
    with socket.create_connection(address, timeout_s) as connected:
        if tls is None:
            return _fault_without_tls(connected, address, deadline_s, has_login=has_login)
        try:
            secured = tls.wrap_socket(connected, server_hostname=address[0])
        except TimeoutError:
            return None
        except OSError as error:
            return handshake_fault(error)
        with secured:
            try:
                return _fault_with_tls(secured, deadline_s, has_login=has_login)
            except (OSError, struct.error) as error:
                # Of TLS 1.3, the first read has the other side's verdict on this one. A write before it may lose that.
                return verdict_of(error) or _alert_of(address, tls, deadline_s)


def _left_s(deadline_s: float) -> float:
    """Raises TimeoutError after the deadline, which is that of the whole exchange: a peer may send a byte now and then."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no response in time")
    return left_s


def _alert_of(address: tuple[str, int], tls: ssl.SSLContext, deadline_s: float) -> Fault | None:
    """The alert that a port sends after the handshake, before anything is written."""
    try:
        with (
            socket.create_connection(address, _left_s(deadline_s)) as connected,
            tls.wrap_socket(connected, server_hostname=address[0]) as secured,
        ):
            secured.recv(1)
    except OSError as error:
        return verdict_of(error)
    return None


def _fault_without_tls(
    connected: socket.socket, address: tuple[str, int], deadline_s: float, *, has_login: bool
) -> Fault | None:
    try:
        connected.sendall(API_VERSIONS)
        first = _received(connected, 2, deadline_s)
        if first and first != TLS_ALERT:
            head = first + _received(connected, 2, deadline_s)
            return _fault_of_response(connected, head, deadline_s, has_login=has_login)
    except TimeoutError:
        return None
    except (OSError, struct.error):
        first = b""
    return security_fault(PortSecurity.TLS) if first or _offers_tls(address, deadline_s) else None


def _fault_with_tls(connected: socket.socket, deadline_s: float, *, has_login: bool) -> Fault | None:
    connected.sendall(API_VERSIONS)
    if not (head := _received(connected, _LENGTH.size, deadline_s)):
        return None
    return _fault_of_response(connected, head, deadline_s, has_login=has_login)


def _fault_of_response(connected: socket.socket, head: bytes, deadline_s: float, *, has_login: bool) -> Fault | None:
    """`head`: the length of a response, which is not received yet. struct.error for a shorter one."""
    size = _LENGTH.unpack(head)[0]
    if not 0 <= size <= _MOST_BYTES:
        return foreign_fault(f"a response of {size} bytes")
    _received(connected, size, deadline_s)
    return None if has_login else _fault_of_handshake(connected, deadline_s)


def _fault_of_handshake(connected: socket.socket, deadline_s: float) -> Fault | None:
    """The response to SaslHandshake has the port's mechanisms, or an error of a port that has none."""
    connected.sendall(_SASL_HANDSHAKE)
    head = _received(connected, _LENGTH.size, deadline_s)
    body = _received(connected, _LENGTH.unpack(head)[0], deadline_s) if head else b""
    if len(body) < 10 or struct.unpack_from(">h", body, 4)[0] != _UNSUPPORTED_MECHANISM:
        return None
    return security_fault(PortSecurity.LOGIN, ", ".join(_names(body))[:_MOST_CHARACTERS])


def _names(body: bytes) -> list[str]:
    """The mechanisms, which follow a correlation id, the error code and their count."""
    names, position = [], 10
    while position + 2 <= len(body):
        length = struct.unpack_from(">h", body, position)[0]
        name = body[position + 2 : position + 2 + length]
        if not 0 < length == len(name):
            break
        names.append("".join(one for one in name.decode(errors="replace") if one.isprintable()))
        position += 2 + length
    return names


def _received(connected: socket.socket, size: int, deadline_s: float) -> bytes:
    """As many bytes; less where the other side ends the connection. Raises OSError for a size that no response has."""
    if not 0 <= size <= _MOST_BYTES:
        raise OSError(f"a response of {size} bytes")
    found = bytearray()
    while len(found) < size:
        connected.settimeout(_left_s(deadline_s))
        if not (piece := connected.recv(size - len(found))):
            break
        found += piece
    return bytes(found)


def _offers_tls(address: tuple[str, int], deadline_s: float) -> bool:
    """Whether the port takes a handshake; its certificate does not count."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address, _left_s(deadline_s)) as connected:
            context.wrap_socket(connected, server_hostname=address[0]).close()
    except TimeoutError:
        return False
    except OSError as error:
        return handshake_fault(error).kind is Kind.TLS
    return True
