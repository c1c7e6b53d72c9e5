"""The TLS files of a client or a server: a context of TLS with them, and why a file, a text or a password cannot be used.

OpenSSL says `PEM lib` for a wrong password, a missing key and a damaged file alike, so a failure is looked into.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .errors import InvalidOptions

if TYPE_CHECKING:
    import ssl

    from .security_options import Security

_TRUST = "ssl.truststore.location or ssl.ca.location"
_TRUST_TEXT = "ssl.truststore.certificates or ssl.ca.pem"
_CERTIFICATE = "ssl.keystore.location or ssl.certificate.location"
_CERTIFICATE_TEXT = "ssl.keystore.certificate.chain or ssl.certificate.pem"
_KEY = "ssl.keystore.location or ssl.key.location"
_KEY_TEXT = "ssl.keystore.key or ssl.key.pem"
#: First bytes of key stores of Java, and of DER, which PKCS#12 is.
_STORES = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30")
_CONVERT = "a key store of Java or PKCS#12, not PEM: convert it by `openssl pkcs12 -in STORE -nodes -out FILE.pem`"
#: Limit of a file: thousands of authorities fit.
_MOST_BYTES = 16 << 20


class _Pem(NamedTuple):
    """`path` is "" for a text of a property. `names`: the properties that name the file, or have the text."""

    path: str
    names: str
    data: bytes

    def unusable(self, why: str) -> InvalidOptions:
        place = f"{self.path}: " if self.path else ""
        return InvalidOptions(f"the TLS files cannot be used: {place}{why}; check {self.names}")


def ssl_context(security: Security) -> ssl.SSLContext:
    """Raises InvalidOptions with the file or property and the reason; no words of it are of a key or a password."""
    import ssl  # 20 ms, which a command without TLS need not wait for

    given = [
        *([_read(security.ca_file, _TRUST)] if security.ca_file else []),
        *([_Pem("", _TRUST_TEXT, security.ca_pem.encode())] if security.ca_pem else []),
    ]
    context = _trusting(given[0]) if given else ssl.create_default_context()
    for one in given[1:]:
        context.load_verify_locations(cadata=_certificates(one))
    context.check_hostname = security.verifies_host
    _identify(context, security)
    return context


def check_server_files(certificate: Path, key: Path) -> None:
    """Raises InvalidOptions for files of --tls-certificate and --tls-key that no server can use. A key has no password: a
    server starts where nobody types one.
    """
    import ssl

    chain, own = _read(str(certificate), "--tls-certificate"), _read(str(key), "--tls-key")
    _checked(chain, b"CERTIFICATE-----", "certificate")
    _checked(own, b"PRIVATE KEY-----", "private key")
    if b"ENCRYPTED" in own.data:
        raise own.unusable("its private key is encrypted: write it without a password by `openssl pkey`")
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), chain, own, "")


def _read(path: str, names: str) -> _Pem:
    try:
        with Path(path).open("rb") as file:
            return _Pem(path, names, file.read(_MOST_BYTES))
    except (OSError, ValueError) as error:
        raise _Pem(path, names, b"").unusable(getattr(error, "strerror", None) or str(error)) from None


def _checked(pem: _Pem, kind: bytes, words: str) -> None:
    """Raises InvalidOptions for what has no part of a kind, such as CERTIFICATE."""
    if kind in pem.data and b"-----BEGIN " in pem.data:
        return
    if pem.data.startswith(_STORES):
        raise pem.unusable(f"it is {_CONVERT}")
    raise pem.unusable(f"it has no {words} in PEM" if pem.data.strip() else "it is empty")


def _trusting(pem: _Pem) -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context(cadata=_certificates(pem))


def _certificates(pem: _Pem) -> str:
    """The text of authorities, which OpenSSL takes."""
    import ssl

    _checked(pem, b"CERTIFICATE-----", "certificate")
    text = pem.data.decode("ascii", "ignore")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (OSError, ValueError):
        raise pem.unusable("a certificate in it is damaged") from None
    return text


def _identify(context: ssl.SSLContext, security: Security) -> None:
    """Loads the certificate and the key of this client, where it has them."""
    if security.certificate_file:
        chain = _read(security.certificate_file, _CERTIFICATE)
    elif security.certificate_pem:
        chain = _Pem("", _CERTIFICATE_TEXT, security.certificate_pem.encode())
    elif security.key_file or security.key_pem:
        names = f"{_CERTIFICATE}, or {_CERTIFICATE_TEXT}"
        raise InvalidOptions(f"the TLS files cannot be used: a key is given without its certificate; set {names}")
    else:
        return
    if security.key_file:
        key = _read(security.key_file, _KEY)
    elif security.key_pem:
        key = _Pem("", _KEY_TEXT, security.key_pem.encode())
    else:
        key = chain._replace(names=f"{chain.names}, or give {_KEY_TEXT}")
    _checked(chain, b"CERTIFICATE-----", "certificate")
    _checked(key, b"PRIVATE KEY-----", "private key")
    _load(context, chain, key, security.key_password)


def _load(context: ssl.SSLContext, chain: _Pem, key: _Pem, password: str) -> None:
    """Python's ssl module takes a client's key from files only: this one has mode 0600 and is deleted at once."""
    import tempfile

    with tempfile.NamedTemporaryFile("wb", suffix=".pem") as file:
        file.write(b"\n".join((key.data, chain.data) if key.data != chain.data else (chain.data,)))
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password)
        except (OSError, ValueError) as error:
            raise _reason(error, chain, key, has_password=bool(password)) from None


def _reason(error: Exception, chain: _Pem, key: _Pem, *, has_password: bool) -> InvalidOptions:
    if "KEY_VALUES_MISMATCH" in str(error):
        return key.unusable("the private key is not that of the certificate")
    if b"ENCRYPTED" in key.data and has_password:
        return key._replace(names=f"ssl.key.password and {key.names}").unusable(
            "ssl.key.password does not open its private key"
        )
    if b"ENCRYPTED" in key.data:
        return key._replace(names="ssl.key.password").unusable("its private key is encrypted, and no password is given")
    if key.data != chain.data:
        _certificates(chain)
        return key.unusable("its private key is damaged")
    return chain.unusable("its certificate or its private key is damaged")
