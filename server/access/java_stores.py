"""Java's own key stores.

JKS is `sun.security.provider.JavaKeyStore`, JCEKS is `com.sun.crypto.provider.JceKeyStore`. Secret keys, which only
a JCEKS file can have, are not read: they are serialized Java objects.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final

import construct as c

JKS: Final = b"\xfe\xed\xfe\xed"
JCEKS: Final = b"\xce\xce\xce\xce"
_JKS_PRIVATE_KEY, _JKS_TRUSTED = 1, 2
_CHECKSUM_BYTES = 20
#: Java hashes these words between the password and the content of a file.
_WHITENER = b"Mighty Aphrodite"
#: Object identifiers, in DER: Sun's protection of keys, and PBEWithMD5AndTripleDES.
_SUN_PROTECTION = bytes.fromhex("2b060104012a02110101")
_MD5_TRIPLE_DES = bytes.fromhex("2b060104012a021301")
#: Java's default is 200,000. Each is two MD5 hashes, some 2 us.
MOST_ITERATIONS = 1_000_000
#: An RSA key of 16,384 bits takes 10 kB.
MOST_KEY_BYTES = 64 << 10
_SEQUENCE, _OBJECT_IDENTIFIER, _OCTETS, _INTEGER = 0x30, 0x06, 0x04, 0x02
_JKS_CERTIFICATE = c.Struct("kind" / c.Prefixed(c.Int16ub, c.GreedyBytes), "der" / c.Prefixed(c.Int32ub, c.GreedyBytes))
#: Version 1 names no kind: all of its certificates are X.509.
_JKS_CERTIFICATE_1 = c.Struct("der" / c.Prefixed(c.Int32ub, c.GreedyBytes))
_HEADER = c.Struct("magic" / c.Bytes(4), "version" / c.Int32ub, "count" / c.Int32ub)
_ENTRY = c.Struct("tag" / c.Int32ub, "alias" / c.Prefixed(c.Int16ub, c.GreedyBytes), "created_ms" / c.Int64ub)
_PROTECTED_KEY = c.Prefixed(c.Int32ub, c.GreedyBytes)


class InvalidStore(Exception):
    """The file is no key store, or is damaged, or has what is not read. The text holds no part of it."""


class WrongPassword(Exception):
    """The password is not that of the file, or not that of the key; or these were changed."""


@dataclass(frozen=True)
class KeyEntry:
    """`protected`: an EncryptedPrivateKeyInfo (PKCS#8) in DER. `chain`: certificates in DER, the key's own first."""

    protected: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True)
class JavaStore:
    """The entries by alias, in the order of their aliases. `trusted`: certificates in DER."""

    keys: dict[bytes, KeyEntry]
    trusted: dict[bytes, bytes]


def read_java_store(data: bytes, password: str | None) -> JavaStore:
    """Returns the entries of a file. Without a password the file's checksum is not verified, as in Java.

    Raises InvalidStore, WrongPassword.
    """
    if len(data) < _HEADER.sizeof() + _CHECKSUM_BYTES:
        raise InvalidStore("it ends within its header")
    content, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + _WHITENER + content, usedforsecurity=False).digest()
        if not hmac.compare_digest(expected, checksum):
            raise WrongPassword
    keys: dict[bytes, KeyEntry] = {}
    trusted: dict[bytes, bytes] = {}
    for alias, entry in sorted(_entries(content), key=lambda one: one[0]):
        if isinstance(entry, KeyEntry):
            keys[alias] = entry
        else:
            trusted[alias] = entry
    return JavaStore(keys, trusted)


def _entries(content: bytes) -> Iterator[tuple[bytes, KeyEntry | bytes]]:
    stream = BytesIO(content)
    try:
        header = _HEADER.parse_stream(stream)
        if header.magic not in (JKS, JCEKS) or header.version not in (1, 2):
            raise InvalidStore(f"version {header.version} is not known")
        certificate = _JKS_CERTIFICATE if header.version == 2 else _JKS_CERTIFICATE_1
        for _ in range(header.count):
            entry = _ENTRY.parse_stream(stream)
            if entry.tag == _JKS_PRIVATE_KEY:
                protected = _PROTECTED_KEY.parse_stream(stream)
                length = c.Int32ub.parse_stream(stream)
                chain = tuple(certificate.parse_stream(stream).der for _ in range(length))
                yield entry.alias, KeyEntry(protected, chain)
            elif entry.tag == _JKS_TRUSTED:
                yield entry.alias, certificate.parse_stream(stream).der
            else:
                raise InvalidStore("it has an entry that is neither a private key nor a certificate")
    except c.ConstructError:
        raise InvalidStore("it ends within an entry") from None
    if stream.read(1):
        raise InvalidStore("bytes follow its last entry")


def decrypt_key(protected: bytes, password: str) -> bytes:
    """Returns the PKCS#8 key, in DER, of an entry's EncryptedPrivateKeyInfo. Raises InvalidStore, WrongPassword."""
    if len(protected) > MOST_KEY_BYTES:
        raise InvalidStore(f"the key has more than {MOST_KEY_BYTES} bytes")
    (info,) = _der_values(protected, _SEQUENCE)
    algorithm, encrypted = _der_values(info, _SEQUENCE, _OCTETS)
    identifier, parameters = _der_head(algorithm, _OBJECT_IDENTIFIER)
    if identifier == _SUN_PROTECTION:
        return _sun_decrypted(encrypted, _utf16(password))
    if identifier == _MD5_TRIPLE_DES:
        (pair,) = _der_values(parameters, _SEQUENCE)
        salt, iterations = _der_values(pair, _OCTETS, _INTEGER)
        return _triple_des_decrypted(encrypted, password, salt, int.from_bytes(iterations, "big"))
    raise InvalidStore("the key is encrypted by an algorithm that is not known")


def _sun_decrypted(encrypted: bytes, password: bytes) -> bytes:
    """Sun's protection: a key stream of SHA-1 hashes, each of the password and the hash before, the first of a salt."""
    if len(encrypted) < 2 * _CHECKSUM_BYTES:
        raise InvalidStore("the key is too short")
    hashed, hidden = encrypted[:_CHECKSUM_BYTES], encrypted[_CHECKSUM_BYTES:-_CHECKSUM_BYTES]
    stream = bytearray()
    while len(stream) < len(hidden):
        hashed = hashlib.sha1(password + hashed, usedforsecurity=False).digest()
        stream += hashed
    key = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    expected = hashlib.sha1(password + key, usedforsecurity=False).digest()
    if not hmac.compare_digest(expected, encrypted[-_CHECKSUM_BYTES:]):
        raise WrongPassword
    return key


def _triple_des_decrypted(encrypted: bytes, password: str, salt: bytes, iterations: int) -> bytes:
    """PBEWithMD5AndTripleDES: each half of the salt is hashed with the password to half of the key and vector."""
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import CBC

    if len(salt) != 8 or not encrypted or len(encrypted) % 8:
        raise InvalidStore("the key's salt or length is wrong")
    if not 1 <= iterations <= MOST_ITERATIONS:
        raise InvalidStore(f"the key needs {iterations} iterations, of which at most {MOST_ITERATIONS} are done")
    words = bytes(ord(one) & 0x7F for one in password)
    derived = b""
    for half in (salt[:4], salt[4:]):
        for _ in range(iterations):
            half = hashlib.md5(half + words, usedforsecurity=False).digest()
        derived += half
    decryptor = Cipher(TripleDES(derived[:24]), CBC(derived[24:])).decryptor()
    padded = decryptor.update(encrypted) + decryptor.finalize()
    padding = padded[-1]
    if not 1 <= padding <= 8 or padded[-padding:] != bytes([padding]) * padding:
        raise WrongPassword
    return padded[:-padding]


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def _der_values(data: bytes, *tags: int) -> list[bytes]:
    """Returns the contents of the values that `data` consists of, which have these tags. Raises InvalidStore."""
    values: list[bytes] = []
    for tag in tags:
        value, data = _der_head(data, tag)
        values.append(value)
    if data:
        raise InvalidStore("the key is not in DER")
    return values


def _der_head(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Returns the content of the first value, and what follows it. Raises InvalidStore."""
    if len(data) < 2 or data[0] != tag:
        raise InvalidStore("the key is not in DER")
    begin, length = 2, data[1]
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(data[2:begin], "big")
    end = begin + length
    if end > len(data):
        raise InvalidStore("the key is not in DER")
    return data[begin:end], data[end:]
