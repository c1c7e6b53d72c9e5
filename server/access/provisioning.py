"""A certificate authority of one's own, for the nodes and clients of one machine."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...metadata.configs import InvalidConfig
from ...metadata.credentials import BY_NAME
from ..config.properties import format_properties
from .tls_stores import require_libraries

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
#: Clocks of clients may be behind.
_BACKDATED = datetime.timedelta(days=1)
ORGANIZATION = "Odradek"


@dataclass(frozen=True)
class Identity:
    """A private key (PKCS#8) and its certificates, those of the owner first, in PEM."""

    key_pem: str = field(repr=False)
    chain_pem: str


class Authority:
    """Issues certificates for servers and clients. Keys are of the curve P-256: made in a millisecond, and every client
    reads them.
    """

    def __init__(self, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate
        self.pem = _pem(certificate)

    @classmethod
    def new(cls) -> Authority:
        """Raises InvalidConfig where the extra `security` is not installed."""
        require_libraries()
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("authority")
        built = _builder(name, name, key, AUTHORITY_DAYS).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        return cls(key, _signed(built.add_extension(_usage(is_authority=True), critical=True), key, key))

    @classmethod
    def read(cls, directory: Path) -> Authority:
        """Reads what `write` wrote. Raises OSError, ValueError, and InvalidConfig as `new`."""
        require_libraries()
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = load_pem_private_key((directory / "authority.key").read_bytes(), None)
        if not isinstance(key, EllipticCurvePrivateKey):
            raise ValueError(f"{directory / 'authority.key'} is not a key of an elliptic curve")
        return cls(key, x509.load_pem_x509_certificate((directory / "authority.pem").read_bytes()))

    def write(self, directory: Path) -> None:
        """Writes `authority.key` and `authority.pem`. Raises OSError."""
        write_secret(directory / "authority.key", _key_pem(self._key))
        (directory / "authority.pem").write_text(self.pem, encoding="ascii")

    def issue(self, name: str, hosts: tuple[str, ...] = ()) -> Identity:
        """Returns a new key and certificate. `hosts`: names and addresses of a server; none for a mere client."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        built = _builder(_name(name), self._certificate.subject, key, CERTIFICATE_DAYS)
        built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        built = built.add_extension(_usage(is_authority=False), critical=True)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        built = built.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if hosts:
            built = built.add_extension(x509.SubjectAlternativeName([_host(one) for one in hosts]), critical=False)
        return Identity(_key_pem(key), _pem(_signed(built, key, self._key)))


def write_secret(path: Path, text: str) -> None:
    """Writes a file that only its owner reads. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION)
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(
    built: x509.CertificateBuilder, key: EllipticCurvePrivateKey, authority: EllipticCurvePrivateKey
) -> x509.Certificate:
    """Python's strict checks want the identifier of the authority's key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    return built.add_extension(identifier, critical=False).sign(authority, hashes.SHA256())


def _host(text: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode("ascii")


def _key_pem(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


# `odradek.Security`: how the clients of a broker connect, and how its nodes connect to each other.


Protocol = Literal["SSL", "SASL_SSL", "SASL_PLAINTEXT"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

DEFAULT_USERS = {"admin": "admin-secret"}
#: The listener between brokers, and that of controllers: mutual TLS, whatever clients do.
INTERNAL, CONTROLLER = "INTERNAL", "CONTROLLER"
#: The principal of the nodes: the name in their certificates.
NODE_NAME = "odradek-node"
#: `CN=alice,O=Odradek` is `User:alice`.
_COMMON_NAME = "RULE:^CN=([^,]*),.*$/$1/,DEFAULT"
_MODULES = {"PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule"}
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_NOT_IN_A_NAME = frozenset(',;"\\= \t\r\n')


@dataclass(frozen=True)
class Security:
    """How clients connect.

    `protocol`: as Kafka's `security.protocol`. `mechanism`: that of SASL; of no meaning for the protocol SSL. `users`: names
    and passwords. `client_certificates`: whether clients need a certificate; each user has one. `authorizer`: whether access
    rules act (StandardAuthorizer); the first of the users is a super user.
    """

    protocol: Protocol = "SASL_SSL"
    mechanism: Mechanism = "SCRAM-SHA-512"
    users: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_USERS), repr=False)
    client_certificates: bool = False
    authorizer: bool = False

    @classmethod
    def named(cls, name: str, users: Mapping[str, str] | None = None) -> Security:
        """Returns the security of one of `NAMES`. Raises InvalidConfig."""
        if name not in NAMES:
            raise InvalidConfig(f"security {name!r} is not one of {', '.join(NAMES)}")
        return NAMES[name] if users is None else replace(NAMES[name], users=users)

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def scram_users(self) -> Mapping[str, str]:
        """The users that the metadata of the cluster has to have."""
        return self.users if self.has_sasl and self.mechanism in BY_NAME else {}

    @property
    def first_user(self) -> str:
        return next(iter(self.users))

    def check(self) -> None:
        """Raises InvalidConfig."""
        if self.protocol not in ("SSL", "SASL_SSL", "SASL_PLAINTEXT"):
            raise InvalidConfig(f"security protocol {self.protocol!r} is not SSL, SASL_SSL or SASL_PLAINTEXT")
        if self.has_sasl and self.mechanism not in ("PLAIN", *BY_NAME):
            raise InvalidConfig(f"SASL mechanism {self.mechanism!r} is not one of PLAIN, {', '.join(BY_NAME)}")
        if self.client_certificates and not self.has_tls:
            raise InvalidConfig("clients have certificates only with TLS: the protocol SSL or SASL_SSL")
        if not self.users:
            raise InvalidConfig("security has no users: name at least one")
        for name, password in self.users.items():
            if not name or not name.isprintable() or _NOT_IN_A_NAME & set(name) or name == NODE_NAME:
                raise InvalidConfig(
                    f"user {name!r}: a name has no space, quote, comma, semicolon, equals sign or backslash"
                )
            if not password or not password.isprintable() or '"' in password or "\\" in password:
                raise InvalidConfig(f"the password of user {name!r} is empty, or has a quote or a backslash")

    # ---- properties of brokers

    def properties(self, *, several_nodes: bool) -> dict[str, str]:
        """Returns the properties of a node, but for its listeners and its stores."""
        prefix = f"listener.name.{self.protocol.lower()}"
        made = {"ssl.principal.mapping.rules": _COMMON_NAME}
        controllers = "SSL" if several_nodes else "PLAINTEXT"
        protocols = [f"{self.protocol}:{self.protocol}", f"{CONTROLLER}:{controllers}"]
        if several_nodes:
            protocols.append(f"{INTERNAL}:SSL")
            made["inter.broker.listener.name"] = INTERNAL
            for name in (INTERNAL, CONTROLLER):
                made[f"listener.name.{name.lower()}.ssl.client.auth"] = "required"
        else:
            made["security.inter.broker.protocol"] = self.protocol
        made["listener.security.protocol.map"] = ",".join(protocols)
        if self.client_certificates:
            made[f"{prefix}.ssl.client.auth"] = "required"
        if self.has_sasl:
            made["sasl.enabled.mechanisms"] = self.mechanism
            made["sasl.mechanism.inter.broker.protocol"] = self.mechanism
            made[f"{prefix}.{self.mechanism.lower()}.sasl.jaas.config"] = self._broker_jaas()
        if self.authorizer:
            made["authorizer.class.name"] = AUTHORIZER
            made["super.users"] = f"User:{NODE_NAME};User:{self.first_user}"
        return made

    def _broker_jaas(self) -> str:
        if self.mechanism != "PLAIN":
            return f"{_SCRAM_MODULE} required;"
        users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        return f"{_MODULES['PLAIN']} required {users};"

    def client_jaas(self, user: str) -> str:
        module = _MODULES.get(self.mechanism, _SCRAM_MODULE)
        return f'{module} required username="{user}" password="{self.users[user]}";'


NAMES: Mapping[str, Security] = {
    "tls": Security(protocol="SSL"),
    "mtls": Security(protocol="SSL", client_certificates=True),
    "scram": Security(),
    "plain": Security(mechanism="PLAIN"),
}


def inline_stores(identity: Identity, authority: Authority) -> dict[str, str]:
    """Returns the stores of a node as properties with the certificates themselves."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem,
        "ssl.keystore.certificate.chain": identity.chain_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem,
    }


# Files and settings for clients of a secured broker: those of each client library under its own names.


LIBRARIES = ("java", "kafka-python", "aiokafka", "confluent-kafka")


class ClientFiles:
    """The files of the clients in a folder: `authority.pem`, and for each user with a certificate `NAME.crt`, `NAME.key`
    and `NAME.pem`, which has both.
    """

    def __init__(self, directory: Path, security: Security) -> None:
        self.directory = directory
        self.security = security
        self.ca_file = directory / "authority.pem"

    def write(self, authority: Authority) -> None:
        """Raises OSError."""
        self.ca_file.write_text(authority.pem, encoding="ascii")
        if self.security.client_certificates:
            for user in self.security.users:
                identity = authority.issue(user)
                write_secret(self.key_file(user), identity.key_pem)
                self.certificate_file(user).write_text(identity.chain_pem, encoding="ascii")
                write_secret(self._both_file(user), identity.key_pem + identity.chain_pem)

    def write_properties(self, bootstrap_servers: str) -> None:
        """Writes `NAME.properties` of each user, for Kafka's tools. Raises OSError."""
        for user in self.security.users:
            found = self.settings("java", user, bootstrap_servers)
            write_secret(self.properties_file(user), format_properties(found))

    def certificate_file(self, user: str) -> Path:
        return self.directory / f"{user}.crt"

    def key_file(self, user: str) -> Path:
        return self.directory / f"{user}.key"

    def properties_file(self, user: str) -> Path:
        return self.directory / f"{user}.properties"

    def _both_file(self, user: str) -> Path:
        return self.directory / f"{user}.pem"

    def settings(self, library: str, user: str, bootstrap_servers: str) -> dict[str, Any]:
        """Returns the settings of a client that is `user`. Raises KeyError for a user that is not known."""
        if user not in self.security.users:
            raise KeyError(f"there is no user {user}: these are {', '.join(self.security.users)}")
        made = plain_settings(library, bootstrap_servers)
        if library == "java":
            return made | self._of_java(user)
        if library == "confluent-kafka":
            return made | self._of_librdkafka(user)
        return made | self._of_python(user, needs_context=library == "aiokafka")

    def _of_java(self, user: str) -> dict[str, str]:
        made: dict[str, str] = {"security.protocol": self.security.protocol}
        if self.security.has_tls:
            made |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}
        if self.security.client_certificates:
            made |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._both_file(user))}
        if self.security.has_sasl:
            made |= {"sasl.mechanism": self.security.mechanism, "sasl.jaas.config": self.security.client_jaas(user)}
        return made

    def _of_librdkafka(self, user: str) -> dict[str, str]:
        made: dict[str, str] = {"security.protocol": self.security.protocol}
        if self.security.has_tls:
            made["ssl.ca.location"] = str(self.ca_file)
        if self.security.client_certificates:
            made["ssl.certificate.location"] = str(self.certificate_file(user))
            made["ssl.key.location"] = str(self.key_file(user))
        if self.security.has_sasl:
            made["sasl.mechanism"] = self.security.mechanism
            made |= {"sasl.username": user, "sasl.password": self.security.users[user]}
        return made

    def _of_python(self, user: str, *, needs_context: bool) -> dict[str, Any]:
        """Returns those of kafka-python, and of aiokafka, which takes an `ssl.SSLContext` in place of files."""
        made: dict[str, Any] = {"security_protocol": self.security.protocol}
        if self.security.has_tls and needs_context:
            made["ssl_context"] = self.ssl_context(user)
        elif self.security.has_tls:
            made["ssl_cafile"] = str(self.ca_file)
            if self.security.client_certificates:
                made["ssl_certfile"] = str(self.certificate_file(user))
                made["ssl_keyfile"] = str(self.key_file(user))
        if self.security.has_sasl:
            made["sasl_mechanism"] = self.security.mechanism
            made |= {"sasl_plain_username": user, "sasl_plain_password": self.security.users[user]}
        return made

    def ssl_context(self, user: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca_file))
        if self.security.client_certificates:
            context.load_cert_chain(self.certificate_file(user), self.key_file(user))
        return context


def plain_settings(library: str, bootstrap_servers: str) -> dict[str, Any]:
    """Returns the address under the library's name for it. Raises ValueError for a library that is not known."""
    if library not in LIBRARIES:
        raise ValueError(f"{library!r} is not one of {', '.join(LIBRARIES)}")
    if library in ("java", "confluent-kafka"):
        return {"bootstrap.servers": bootstrap_servers}
    return {"bootstrap_servers": bootstrap_servers}
