"""Security options of a client in one form, by the names of Java's clients and of librdkafka; their logins.

Certificates are PEM, in a file or in the property itself. Java's own key stores are neither read by librdkafka nor by
Python's ssl module, so an error gives the command that converts one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import InvalidOptions
from .user_info import apart

if TYPE_CHECKING:
    from .sasl import Login

_JAAS_OPTION = re.compile(r"""([A-Za-z_.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
#: Limit of the response of a token endpoint.
TOKEN_S = 10.0
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
#: Names that `security_of` reads; the others are the client's.
_NAMES_TEXT = """
    security.protocol sasl.mechanism sasl.mechanisms sasl.jaas.config sasl.username sasl.password
    sasl.login.callback.handler.class sasl.client.callback.handler.class sasl.kerberos.service.name
    sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.method sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.scope ssl.truststore.location
    ssl.truststore.type ssl.truststore.password ssl.truststore.certificates ssl.keystore.location
    ssl.keystore.type ssl.keystore.password ssl.keystore.certificate.chain ssl.keystore.key ssl.key.password
    ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.key.location ssl.key.pem
    ssl.endpoint.identification.algorithm enable.ssl.certificate.verification
"""
NAMES = frozenset(_NAMES_TEXT.split())


def jaas_options(line: str) -> dict[str, str]:
    """The options of `sasl.jaas.config`: `Module required username="u" password="p";`. An error has no part of it."""
    words = line.strip()
    if not re.match(r"^[\w.$]+\s+(required|requisite|sufficient|optional)\b", words, re.IGNORECASE):
        raise InvalidOptions(
            'sasl.jaas.config is not `LoginModule required name="value" ...;`: check quotes and the semicolon'
        )
    found = {}
    for name, double, single, bare in _JAAS_OPTION.findall(words):
        found[name] = re.sub(r"\\(.)", r"\1", double or single) or bare
    return found


@dataclass(slots=True, repr=False)
class Security:
    """Paths and PEM texts are "" when not given. No repr: it holds secrets."""

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = ""
    ca_file: str = ""
    ca_pem: str = ""
    certificate_file: str = ""
    certificate_pem: str = ""
    key_file: str = ""
    key_pem: str = ""
    key_password: str = ""
    verifies_host: bool = True
    token_endpoint: str = ""
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    kerberos_service: str = ""

    @property
    def has_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")


def security_of(properties: Mapping[str, str]) -> Security:
    """Raises InvalidOptions for a protocol, mechanism or key store that no client here can use."""
    found = Security(protocol=properties.get("security.protocol", "PLAINTEXT").upper())
    if found.protocol not in PROTOCOLS:
        raise InvalidOptions(f"security.protocol={found.protocol} is not one of {', '.join(PROTOCOLS)}")
    if found.has_sasl:
        _read_sasl(properties, found)
    if found.has_tls:
        _read_tls(properties, found)
    return found


def _read_sasl(properties: Mapping[str, str], security: Security) -> None:
    security.mechanism = (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI").upper()
    if security.mechanism not in MECHANISMS:
        raise InvalidOptions(f"sasl.mechanism={security.mechanism} is not one of {', '.join(MECHANISMS)}")
    jaas = properties.get("sasl.jaas.config")
    options = jaas_options(jaas) if jaas else {}
    security.username = properties.get("sasl.username") or options.get("username", "")
    security.password = properties.get("sasl.password") or options.get("password", "")
    security.kerberos_service = properties.get("sasl.kerberos.service.name") or options.get("serviceName", "kafka")
    credentials = "sasl.oauthbearer.client.credentials.client"
    security.token_endpoint = properties.get("sasl.oauthbearer.token.endpoint.url", "")
    security.client_id = _first(properties, f"{credentials}.id", "sasl.oauthbearer.client.id") or options.get(
        "clientId", ""
    )
    security.client_secret = _first(properties, f"{credentials}.secret", "sasl.oauthbearer.client.secret")
    security.client_secret = security.client_secret or options.get("clientSecret", "")
    security.scope = properties.get("sasl.oauthbearer.scope") or options.get("scope", "")
    if apart(security.token_endpoint).user_info:
        raise InvalidOptions(
            "sasl.oauthbearer.token.endpoint.url has a user and a password: give them as "
            "sasl.oauthbearer.client.credentials.client.id and .secret"
        )
    needs_password = security.mechanism == "PLAIN" or security.mechanism.startswith("SCRAM")
    if needs_password and not security.username:
        raise InvalidOptions(
            f"sasl.mechanism={security.mechanism} needs sasl.jaas.config, or sasl.username and sasl.password"
        )
    if security.mechanism == "OAUTHBEARER" and not (security.token_endpoint and security.client_id):
        raise InvalidOptions(
            "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url and a client id and secret"
        )


def _first(properties: Mapping[str, str], *names: str) -> str:
    return next((properties[name] for name in names if properties.get(name)), "")


def _read_tls(properties: Mapping[str, str], security: Security) -> None:
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    security.verifies_host = algorithm not in ("", "none")
    security.ca_file = properties.get("ssl.ca.location") or _store(properties, "ssl.truststore", "-nokeys")
    security.ca_pem = _first(properties, "ssl.ca.pem", "ssl.truststore.certificates")
    store = _store(properties, "ssl.keystore", "-nodes")
    security.certificate_file = properties.get("ssl.certificate.location") or store
    security.key_file = properties.get("ssl.key.location") or store
    security.certificate_pem = _first(properties, "ssl.certificate.pem", "ssl.keystore.certificate.chain")
    security.key_pem = _first(properties, "ssl.key.pem", "ssl.keystore.key")
    # A file or a text with both: librdkafka looks for the key nowhere else than where it is named.
    if not (security.key_file or security.key_pem):
        security.key_file, security.key_pem = security.certificate_file, security.certificate_pem
    security.key_password = properties.get("ssl.key.password", "")


def _store(properties: Mapping[str, str], prefix: str, option: str) -> str:
    """The file of a PEM store; "" when none is named."""
    location = properties.get(f"{prefix}.location", "")
    kind = properties.get(f"{prefix}.type", "").upper()
    if not location or kind == "PEM" or location.endswith((".pem", ".crt", ".cer")):
        return location
    pem = f"{location.rpartition('.')[0] or location}.pem"
    raise InvalidOptions(
        f"{prefix}.location={location} is not a PEM file: convert it (JKS first with `keytool -importkeystore "
        f"-deststoretype PKCS12`) by `openssl pkcs12 -in {location} {option} -out {pem}`, and set {prefix}.type=PEM"
    )


def login_of(security: Security, timeout_s: float = TOKEN_S) -> Login | None:
    """The login of `odradek.client`; None where the protocol has none. `timeout_s`: of a token endpoint."""
    if not security.has_sasl:
        return None
    if security.mechanism == "GSSAPI":
        from .kerberos import KerberosLogin

        return KerberosLogin("", None, security.kerberos_service, "")
    if security.mechanism == "OAUTHBEARER":
        from .token_login import ClientCredentials, TokenLogin

        credentials = ClientCredentials(
            security.client_id, security.client_secret, security.scope, security.token_endpoint
        )
        return TokenLogin(credentials, timeout_s)
    from .sasl import PasswordLogin

    return PasswordLogin(security.mechanism, security.username, security.password)
