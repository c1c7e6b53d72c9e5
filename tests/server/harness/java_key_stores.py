"""Writes JKS files: the format of Java's own key stores, version 2."""

from __future__ import annotations

import hashlib
import os
import struct

#: AlgorithmIdentifier of Sun's protection of keys, in DER.
_SUN_PROTECTION = bytes.fromhex("300e060a2b060104012a021101010500")


def written_jks(password: str, *entries: bytes) -> bytes:
    content = struct.pack(">4sII", b"\xfe\xed\xfe\xed", 2, len(entries)) + b"".join(entries)
    return content + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + content).digest()


def key_entry(alias: str, pkcs8: bytes, chain: list[bytes], password: str) -> bytes:
    protected = _der(0x30, _SUN_PROTECTION + _der(0x04, _protected(pkcs8, password.encode("utf-16-be"))))
    certificates = b"".join(_certificate(one) for one in chain)
    return (
        _head(1, alias) + struct.pack(">I", len(protected)) + protected + struct.pack(">I", len(chain)) + certificates
    )


def trusted_entry(alias: str, der: bytes) -> bytes:
    return _head(2, alias) + _certificate(der)


def _head(tag: int, alias: str) -> bytes:
    name = alias.encode()
    return struct.pack(">IH", tag, len(name)) + name + struct.pack(">Q", 1_700_000_000_000)


def _certificate(der: bytes) -> bytes:
    return struct.pack(">H", 5) + b"X.509" + struct.pack(">I", len(der)) + der


def _der(tag: int, content: bytes) -> bytes:
    return bytes([tag, 0x82]) + struct.pack(">H", len(content)) + content


def _protected(pkcs8: bytes, password: bytes) -> bytes:
    salt = hashed = os.urandom(20)
    hidden = bytearray()
    for begin in range(0, len(pkcs8), 20):
        hashed = hashlib.sha1(password + hashed).digest()
        hidden += bytes(a ^ b for a, b in zip(pkcs8[begin : begin + 20], hashed, strict=False))
    return salt + bytes(hidden) + hashlib.sha1(password + pkcs8).digest()
