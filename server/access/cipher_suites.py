"""Cipher suites under Java's names, and OpenSSL's names of them.

Cipher suites: their IANA names, which Kafka's configuration has, and the names of OpenSSL.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...metadata.configs import InvalidConfig

#: Those of TLS 1.3, in OpenSSL's order of preference. Python's ssl offers all three or none.
TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
#  Suites of TLS 1.2, with OpenSSL's name. Suites without authentication, without encryption or with broken ciphers are not
#  here.
TLS_1_2 = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}
_OPENSSL_NAMES = frozenset(TLS_1_2.values())


def openssl_names(suites: Iterable[str]) -> list[str]:
    """Returns OpenSSL's names of the suites of TLS 1.2 among `suites`. Raises InvalidConfig for a name that is not known."""
    found = []
    for name in suites:
        if name in TLS_1_2 or name in _OPENSSL_NAMES:
            found.append(TLS_1_2.get(name, name))
        elif name not in TLS_1_3:
            raise InvalidConfig(
                f"ssl.cipher.suites: {name} is not known or not safe; docs/security-tls.md lists the names"
            )
    return found


def check_tls_1_3(suites: Iterable[str]) -> None:
    """Raises InvalidConfig if the suites of TLS 1.3 among `suites` cannot be had.

    A server prefers TLS_AES_256_GCM_SHA384, which every client offers. A list without it would refuse all of them.
    """
    named = [name for name in suites if name in TLS_1_3]
    if named and TLS_1_3[0] not in named:
        raise InvalidConfig(
            f"ssl.cipher.suites: with TLSv1.3 the list must contain {TLS_1_3[0]} (or no suite of TLSv1.3, for TLSv1.2 only)"
        )
