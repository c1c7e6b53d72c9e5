"""A TLS 1.2 client that renegotiates and ignores the response; no library lets a client do so.

The keys come from the library's key log; this module makes the records after the handshake (RFC 5246, RFC 5288).
"""

from __future__ import annotations

import hmac
import socket
import ssl
import struct
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SUITES = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256"
_HANDSHAKE, _VERSION = 22, 0x0303
#: The header of a ClientHello: a server reads no more before it rejects the renegotiation.
HELLO = b"\x01\x00\x00\x00"
_RECEIVED_BYTES = 65536


def _expanded(secret: bytes, seed: bytes, length: int) -> bytes:
    """Returns P_SHA256 (RFC 5246, section 5)."""
    found, last = b"", seed
    while len(found) < length:
        last = hmac.digest(secret, last, "sha256")
        found += hmac.digest(secret, last + seed, "sha256")
    return found[:length]


class Renegotiator:
    """A connection after its handshake. `log` is the file of the library's key log."""

    def __init__(self, address: str, trusted: str, log: Path, source: str = "") -> None:
        host, _, port = address.rpartition(":")
        context = ssl.create_default_context(cadata=trusted)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_SUITES)
        context.keylog_filename = str(log)
        self.socket = socket.create_connection((host, int(port)), timeout=60, source_address=(source, 0))
        hello = self._shake_hands(context, host)
        client_random, master = (bytes.fromhex(word) for word in log.read_text().split()[-2:])
        keys = _expanded(master, b"key expansion" + hello[11:43] + client_random, 40)
        self._cipher, self._salt = AESGCM(keys[:16]), keys[32:36]
        self._number = 1  # the client's Finished was 0

    def _shake_hands(self, context: ssl.SSLContext, host: str) -> bytes:
        """Returns the server's first messages."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname=host)
        received = b""
        while True:
            try:
                client.do_handshake()
                return received
            except ssl.SSLWantReadError:
                self.socket.sendall(outgoing.read())
                data = self.socket.recv(_RECEIVED_BYTES)
                assert data, "the server ends the handshake"
                received += data
                incoming.write(data)

    def hello(self) -> bytes:
        """Returns the next record: a ClientHello."""
        number = struct.pack(">Q", self._number)
        self._number += 1
        bound = number + struct.pack(">BHH", _HANDSHAKE, _VERSION, len(HELLO))
        data = number + self._cipher.encrypt(self._salt + number, HELLO, bound)
        return struct.pack(">BHH", _HANDSHAKE, _VERSION, len(data)) + data
