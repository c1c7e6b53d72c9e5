"""`odradek.Security`: how the clients of a broker connect, and how its nodes connect to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ...metadata.configs import InvalidConfig
from ...metadata.credentials import BY_NAME
from ..config.listener_prefix import listener_prefix, mechanism_prefix
from .authentication.jaas import SCRAM_MODULE
from .authority import Authority, IssuedIdentity

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

    # Properties of brokers.

    def properties(self, *, several_nodes: bool) -> dict[str, str]:
        """Returns the properties of a node, but for its listeners and its stores."""
        made = {"ssl.principal.mapping.rules": _COMMON_NAME}
        controllers = "SSL" if several_nodes else "PLAINTEXT"
        protocols = [f"{self.protocol}:{self.protocol}", f"{CONTROLLER}:{controllers}"]
        if several_nodes:
            protocols.append(f"{INTERNAL}:SSL")
            made["inter.broker.listener.name"] = INTERNAL
            for name in (INTERNAL, CONTROLLER):
                made[listener_prefix(name) + "ssl.client.auth"] = "required"
        else:
            made["security.inter.broker.protocol"] = self.protocol
        made["listener.security.protocol.map"] = ",".join(protocols)
        if self.client_certificates:
            made[listener_prefix(self.protocol) + "ssl.client.auth"] = "required"
        if self.has_sasl:
            made["sasl.enabled.mechanisms"] = self.mechanism
            made["sasl.mechanism.inter.broker.protocol"] = self.mechanism
            made[mechanism_prefix(self.protocol, self.mechanism) + "sasl.jaas.config"] = self._broker_jaas()
        if self.authorizer:
            made["authorizer.class.name"] = AUTHORIZER
            made["super.users"] = f"User:{NODE_NAME};User:{self.first_user}"
        return made

    def _broker_jaas(self) -> str:
        if self.mechanism != "PLAIN":
            return f"{SCRAM_MODULE} required;"
        users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        return f"{_MODULES['PLAIN']} required {users};"

    def client_jaas(self, user: str) -> str:
        module = _MODULES.get(self.mechanism, SCRAM_MODULE)
        return f'{module} required username="{user}" password="{self.users[user]}";'


NAMES: Mapping[str, Security] = {
    "tls": Security(protocol="SSL"),
    "mtls": Security(protocol="SSL", client_certificates=True),
    "scram": Security(),
    "plain": Security(mechanism="PLAIN"),
}


def inline_stores(identity: IssuedIdentity, authority: Authority) -> dict[str, str]:
    """Returns the stores of a node as properties with the certificates themselves."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem,
        "ssl.keystore.certificate.chain": identity.chain_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem,
    }
