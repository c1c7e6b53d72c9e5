"""Reads key and trust stores: PEM (in a file or in the configuration, KIP-651), PKCS12, JKS and JCEKS.

The bytes of a file decide its format: Java reads a PKCS12 file under the type JKS and the other way round, and so
does this. No text of an error contains a password or a part of a key.

- `KeyStore`, `TrustStore`: where they are, as a configuration has it, with its checks.
- `read_java_store`, `decrypt_key`: Java's own key stores.
- `read_key_store`, `read_trust_store`: the stores of a listener, in any format.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import construct as c

from ...metadata.configs import InvalidConfig, Password
from ...storage.files.open_files import read_regular_file

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


# ---- the stores that a configuration names

PEM = "PEM"
#: The forms of a store that are read. Each takes a file of the other Java form too, as Java does.
JAVA_FORMS = ("JKS", "PKCS12", "JCEKS")


@dataclass(frozen=True, slots=True)
class KeyStore:
    """Where the key and the certificates of this node are. `password` opens the file, `key_password` the key."""

    type: str
    location: str | None
    password: Password | None
    key_password: Password | None
    key: Password | None
    certificate_chain: Password | None

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.key is not None


@dataclass(frozen=True, slots=True)
class TrustStore:
    """Where the trusted certificates are. Without one, those of the system are trusted."""

    type: str
    location: str | None
    password: Password | None
    certificates: Password | None

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.certificates is not None


def checked_key_store(store: KeyStore) -> KeyStore:
    """Returns the store as it is read, by the rules and texts of Kafka's DefaultSslEngineFactory. Raises InvalidConfig."""
    store = _trimmed(store)
    has_key, has_chain = store.key is not None, store.certificate_chain is not None
    if has_key and store.type != PEM:
        raise InvalidConfig(f"SSL private key can be specified only for PEM, but key store type is {store.type}.")
    if has_key and not has_chain:
        raise InvalidConfig("SSL private key is specified, but certificate chain is not specified.")
    if has_key and store.location is not None:
        raise InvalidConfig("Both SSL key store location and separate private key are specified.")
    if has_chain and not has_key:
        raise InvalidConfig("SSL certificate chain is specified, but private key is not specified")
    if store.type == PEM and store.is_set and store.password is not None:
        raise InvalidConfig(
            "SSL key store password cannot be specified with PEM format, only key password may be specified."
        )
    if store.type != PEM and not store.location and store.password is not None:
        raise InvalidConfig("SSL key store is not specified, but key store password is specified.")
    if store.type != PEM and store.location and store.password is None:
        raise InvalidConfig("SSL key store is specified, but key store password is not specified.")
    _check_form(store.type, "ssl.keystore.type")
    return store


def checked_trust_store(store: TrustStore) -> TrustStore:
    """Does the same for a trust store."""
    store = _trimmed(store)
    has_certificates = store.certificates is not None
    if has_certificates and store.type != PEM:
        raise InvalidConfig(
            f"SSL trust store certs can be specified only for PEM, but trust store type is {store.type}."
        )
    if has_certificates and store.location is not None:
        raise InvalidConfig("Both SSL trust store location and separate trust certificates are specified.")
    if store.type == PEM and store.is_set and store.password is not None:
        raise InvalidConfig("SSL trust store password cannot be specified for PEM format.")
    if not store.is_set and store.password is not None:
        raise InvalidConfig("SSL trust store is not specified, but trust store password is specified.")
    _check_form(store.type, "ssl.truststore.type")
    return store


def _check_form(form: str, key: str) -> None:
    if form not in (PEM, *JAVA_FORMS):
        raise InvalidConfig(f"{key}={form} is not known; use PEM, PKCS12 or JKS")


def _trimmed(store: Any) -> Any:
    """Without the location where it is blank: an empty value in a file means that none is set."""
    return store if store.location else replace(store, location=None)


# ---- Java's own key stores
#
# JKS is `sun.security.provider.JavaKeyStore`, JCEKS is `com.sun.crypto.provider.JceKeyStore`. Secret keys, which only
# a JCEKS file can have, are not read: they are serialized Java objects.

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


# ---- stores of a listener

#: A store of a thousand certificates has 2 MB; a path that names something else is not read whole.
MOST_STORE_BYTES = 16 << 20
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
MISSING_LIBRARY = "TLS needs the packages of the extra `security`: pip install 'odradek[security]'"


@dataclass(frozen=True)
class KeyMaterial:
    """A private key with its certificates, those of the node first. `key`: PKCS#8 in PEM, not encrypted."""

    key: bytes = field(repr=False)
    chain: tuple[Certificate, ...]


def require_libraries() -> None:
    """Raises InvalidConfig if the packages that read certificates are not installed."""
    try:
        import cryptography.x509  # noqa: F401
    except ImportError:
        raise InvalidConfig(MISSING_LIBRARY) from None


def read_key_store(store: KeyStore) -> KeyMaterial | None:
    """Returns None when no store is set. Raises InvalidConfig."""
    if not store.is_set:
        return None
    require_libraries()
    if store.key is not None and store.certificate_chain is not None:
        return _key_of_pem(
            _bytes(store.key), _bytes(store.certificate_chain), store.key_password, "Invalid PEM keystore configs"
        )
    path = store.location or ""
    words = f"Failed to load SSL keystore {path} of type {store.type}"
    data = _file(path, words)
    if store.type == PEM:
        return _key_of_pem(data, data, store.key_password, f"Failed to load PEM SSL keystore {path}")
    if data[:4] in (JKS, JCEKS):
        return _key_of_java(data, store, words)
    return _key_of_pkcs12(data, store, words)


def read_trust_store(store: TrustStore) -> tuple[Certificate, ...] | None:
    """Returns None when no store is set. Raises InvalidConfig."""
    if not store.is_set:
        return None
    require_libraries()
    if store.certificates is not None:
        return _certificates_of_pem(_bytes(store.certificates), "Invalid PEM truststore configs")
    path = store.location or ""
    words = f"Failed to load SSL truststore {path} of type {store.type}"
    data = _file(path, words)
    if store.type == PEM:
        return _certificates_of_pem(data, words)
    if data[:4] in (JKS, JCEKS):
        return _trusted_of_java(data, store.password, words)
    return _trusted_of_pkcs12(data, store.password, words)


def _file(path: str, words: str) -> bytes:
    try:
        data = read_regular_file(path, MOST_STORE_BYTES + 1)
    except OSError as error:
        raise InvalidConfig(f"{words}: {error.strerror}") from None
    if len(data) > MOST_STORE_BYTES:
        raise InvalidConfig(f"{words}: it has more than {MOST_STORE_BYTES} bytes")
    return data


def _bytes(text: Password) -> bytes:
    return text.value.encode()


def _secret(password: Password | None) -> bytes | None:
    return password.value.encode() if password is not None else None


# ---- PEM


def _key_of_pem(key: bytes, chain: bytes, password: Password | None, words: str) -> KeyMaterial:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    found = _PRIVATE_KEY.search(key)
    if found is None:
        raise InvalidConfig(f"{words}: no private key found (-----BEGIN PRIVATE KEY-----)")
    is_encrypted = b"ENCRYPTED" in found.group()[:200]
    if is_encrypted and password is None:
        raise InvalidConfig(f"{words}: the private key is encrypted, and ssl.key.password is not set")
    try:
        # The key's primes are not checked, which takes 40 ms: a key that does not fit its certificate is refused below.
        private = load_pem_private_key(
            found.group(), _secret(password) if is_encrypted else None, unsafe_skip_rsa_key_validation=True
        )
    except (ValueError, TypeError) as error:
        why = "is ssl.key.password right?" if is_encrypted else type(error).__name__
        raise InvalidConfig(f"{words}: the private key cannot be read: {why}") from None
    except Exception as error:  # UnsupportedAlgorithm, which is no ValueError
        raise InvalidConfig(f"{words}: the private key cannot be read: {type(error).__name__}") from None
    return _material(private, _certificates_of_pem(chain, words), words)


def _certificates_of_pem(data: bytes, words: str) -> tuple[Certificate, ...]:
    from cryptography.x509 import load_pem_x509_certificate

    found = _CERTIFICATE.findall(data)
    if not found:
        raise InvalidConfig(f"{words}: At least one certificate expected, but none found")
    try:
        return tuple(load_pem_x509_certificate(one) for one in found)
    except ValueError as error:
        raise InvalidConfig(f"{words}: a certificate cannot be read: {error}") from None


def _material(private: Any, chain: tuple[Certificate, ...], words: str) -> KeyMaterial:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if not chain:
        raise InvalidConfig(f"{words}: the private key has no certificate")
    if private.public_key().public_bytes(*form) != chain[0].public_key().public_bytes(*form):
        raise InvalidConfig(f"{words}: the private key is not that of the first certificate")
    return KeyMaterial(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), chain)


# ---- PKCS12


def _pkcs12(data: bytes, password: Password | None, words: str) -> Any:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        return load_pkcs12(data, _secret(password))
    except ValueError:
        raise InvalidConfig(f"{words}: keystore password was incorrect, or it is not a PKCS12 file") from None
    except Exception as error:  # an algorithm that the library does not have
        raise InvalidConfig(f"{words}: {type(error).__name__}") from None


def _key_of_pkcs12(data: bytes, store: KeyStore, words: str) -> KeyMaterial:
    found = _pkcs12(data, store.password, words)
    if found.key is None or found.cert is None:
        raise InvalidConfig(f"{words}: it has no private key with a certificate")
    others = [one.certificate for one in found.additional_certs]
    return _material(found.key, _ordered(found.cert.certificate, others), words)


def _ordered(first: Certificate, others: list[Certificate]) -> tuple[Certificate, ...]:
    """The chain of the first certificate: each is issued by the next. The file may have them in any order."""
    chain = [first]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((one for one in others if one.subject == chain[-1].issuer and one not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return tuple(chain)


def _trusted_of_pkcs12(data: bytes, password: Password | None, words: str) -> tuple[Certificate, ...]:
    found = _pkcs12(data, password, words)
    own = (found.cert,) if found.cert is not None else ()
    trusted = tuple(one.certificate for one in (*own, *found.additional_certs))
    return _some(trusted, words)


def _some(trusted: tuple[Certificate, ...], words: str) -> tuple[Certificate, ...]:
    if not trusted:
        raise InvalidConfig(f"{words}: it has no certificate that could be trusted")
    return trusted


# ---- JKS, JCEKS


def _java(data: bytes, password: Password | None, words: str) -> JavaStore:
    try:
        return read_java_store(data, password.value if password is not None else None)
    except WrongPassword:
        raise InvalidConfig(f"{words}: Keystore was tampered with, or password was incorrect") from None
    except InvalidStore as error:
        raise InvalidConfig(f"{words}: the file cannot be read: {error}") from None


def _key_of_java(data: bytes, store: KeyStore, words: str) -> KeyMaterial:
    """The entry of the first alias with a key, as Java's key manager takes it where nothing tells them apart."""
    from cryptography.hazmat.primitives.serialization import load_der_private_key
    from cryptography.x509 import load_der_x509_certificate

    entry = next(iter(_java(data, store.password, words).keys.values()), None)
    if entry is None:
        raise InvalidConfig(f"{words}: it has no private key")
    password = store.key_password or store.password
    try:
        key = decrypt_key(entry.protected, password.value if password is not None else "")
        private = load_der_private_key(key, None, unsafe_skip_rsa_key_validation=True)
        chain = tuple(load_der_x509_certificate(der) for der in entry.chain)
    except InvalidStore as error:
        raise InvalidConfig(f"{words}: the private key cannot be read: {error}") from None
    except Exception:  # none of the texts is shown, since they may quote what was decrypted
        raise InvalidConfig(f"{words}: Cannot recover key (is ssl.key.password right?)") from None
    return _material(private, chain, words)


def _trusted_of_java(data: bytes, password: Password | None, words: str) -> tuple[Certificate, ...]:
    from cryptography.x509 import load_der_x509_certificate

    found = _java(data, password, words)
    ders = [*found.trusted.values(), *(entry.chain[0] for entry in found.keys.values() if entry.chain)]
    try:
        return _some(tuple(load_der_x509_certificate(der) for der in ders), words)
    except ValueError as error:
        raise InvalidConfig(f"{words}: a certificate cannot be read: {error}") from None
