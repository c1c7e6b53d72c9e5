"""Names of subjects.

The texts are those of `X500Principal.getName()`, which is RFC 2253. Kafka's principals are these texts, so a rule
that was written for one matches here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import Name, NameAttribute, RelativeDistinguishedName

#: The attribute types that RFC 2253 has a keyword for; Java prints all others as numbers with the value in hexadecimal.
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANK = " \r"
#: Clients connect again and again with the same certificates; one of 2 KB takes 0.1 ms to read.
_KEPT_SUBJECTS = 256


@lru_cache(_KEPT_SUBJECTS)
def subject_name(der: bytes) -> str:
    """Returns the subject of a certificate in DER. Raises ValueError."""
    from cryptography.x509 import load_der_x509_certificate

    return rfc2253(load_der_x509_certificate(der).subject)


def rfc2253(name: Name) -> str:
    """Returns the last relative name first; the attributes of one relative name are joined by `+`."""
    return ",".join(_relative(rdn) for rdn in reversed(list(name.rdns)))


def _relative(rdn: RelativeDistinguishedName) -> str:
    return "+".join(_attribute(attribute) for attribute in rdn)


def _attribute(attribute: NameAttribute[str | bytes]) -> str:
    oid = attribute.oid.dotted_string
    if oid not in _KEYWORDS:
        return f"{oid}=#{_encoded(attribute).hex()}"
    return f"{_KEYWORDS[oid]}={_escaped(attribute.value)}"


def _encoded(attribute: NameAttribute[str | bytes]) -> bytes:
    """The value in DER, cut out of the encoding of a name that has this attribute only."""
    from cryptography.x509 import Name

    encoded = Name([attribute]).public_bytes()
    for _ in range(3):  # the name, the set of attributes, the attribute
        encoded = _content(encoded)
    type_end = 2 + encoded[1]
    return encoded[type_end:]


def _content(encoded: bytes) -> bytes:
    """The content of a DER value: what follows its tag and length."""
    length = encoded[1]
    return encoded[2:] if length < 0x80 else encoded[2 + (length & 0x7F) :]


def _escaped(value: str | bytes) -> str:
    text = value if isinstance(value, str) else value.decode(errors="replace")
    shown = "".join(f"\\{one}" if one in _ESCAPED else "\\00" if one == "\0" else one for one in text)
    body = shown.strip(_BLANK)
    if not body:
        return "".join(f"\\{one}" for one in shown)
    start = shown.index(body)
    end = start + len(body)
    before, after = shown[:start], shown[end:]
    return "".join(f"\\{one}" for one in before) + body + "".join(f"\\{one}" for one in after)
