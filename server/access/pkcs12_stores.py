"""Key and trust stores in PKCS12."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.configs import InvalidConfig, Password
from .key_material import KeyMaterial, checked_trusted, material, secret
from .store_settings import KeyStore

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate


def _pkcs12(data: bytes, password: Password | None, words: str) -> PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        return load_pkcs12(data, secret(password))
    except ValueError:
        raise InvalidConfig(f"{words}: keystore password was incorrect, or it is not a PKCS12 file") from None
    except Exception as error:  # an algorithm that the library does not have
        raise InvalidConfig(f"{words}: {type(error).__name__}") from None


def key_of_pkcs12(data: bytes, store: KeyStore, words: str) -> KeyMaterial:
    found = _pkcs12(data, store.password, words)
    if found.key is None or found.cert is None:
        raise InvalidConfig(f"{words}: it has no private key with a certificate")
    others = [one.certificate for one in found.additional_certs]
    return material(found.key, _ordered(found.cert.certificate, others), words)


def _ordered(first: Certificate, others: list[Certificate]) -> tuple[Certificate, ...]:
    """The chain of the first certificate: each is issued by the next. The file may have them in any order."""
    chain = [first]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((one for one in others if one.subject == chain[-1].issuer and one not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return tuple(chain)


def trusted_of_pkcs12(data: bytes, password: Password | None, words: str) -> tuple[Certificate, ...]:
    found = _pkcs12(data, password, words)
    own = (found.cert,) if found.cert is not None else ()
    trusted = tuple(one.certificate for one in (*own, *found.additional_certs))
    return checked_trusted(trusted, words)
