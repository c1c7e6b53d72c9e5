"""Brokers of either kind with SASL listeners, and the same users in both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odradek.metadata.credentials import BY_CODE, salted_password
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)

from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka
from compat_tests.wire import WireClient

#: Passwords of the users in the JAAS configuration.
PLAIN_USERS = {"admin": "admin-secret-7f31", "alice": "alice-secret-a90c", "bob": "bob-secret-5d2e"}
#: Passwords of the users in the metadata.
SCRAM_USERS = {"sam": "sam-secret-c40b", "comma,equals=": "odd-secret-9e77"}
#: delegation.token.secret.key
TOKEN_SECRET = "token-secret-e5b8"
SALT = b"salt-of-the-tests"
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
#: A Java client renews a session after 85 to 95 % of it: a busy machine has 0.4 to 1.2 s for that.
SESSION_MS = 8000
MAX_RECEIVE_BYTES = 4096
#: Long enough to distinguish from a busy machine.
DELAY_MS = 700

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
    ['username="admin"', f'password="{PLAIN_USERS["admin"]}"', *(f'user_{n}="{p}"' for n, p in PLAIN_USERS.items())]
)
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def jaas(listener: str) -> dict[str, str]:
    prefix = f"listener.name.{listener}"
    return {
        f"{prefix}.plain.sasl.jaas.config": f"{_PLAIN};",
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{_SCRAM};",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{_SCRAM};",
    }


class Secured:
    """A broker with the listeners PLAINTEXT, SASL, and SESSIONS, on which sessions end after `SESSION_MS`."""

    def __init__(self, kind: type[BrokerProcess], directory: Path) -> None:
        self.ports = {name: free_port() for name in ("PLAINTEXT", "SASL", "SESSIONS")}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        properties = {
            **SINGLE_NODE,
            "listeners": listeners,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SESSIONS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": MECHANISMS,
            "sasl.server.max.receive.size": str(MAX_RECEIVE_BYTES),
            "listener.name.sessions.connections.max.reauth.ms": str(SESSION_MS),
            "connection.failed.authentication.delay.ms": str(DELAY_MS),
            "delegation.token.secret.key": TOKEN_SECRET,
            "delegation.token.expiry.time.ms": "3600000",
            "delegation.token.max.lifetime.ms": "7200000",
            **jaas("sasl"),
            **jaas("sessions"),
        }
        if kind is ApacheKafka:
            controller = free_port()
            properties["listeners"] = f"{listeners},CONTROLLER://127.0.0.1:{controller}"
            properties["advertised.listeners"] = listeners
            properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
        self.broker = kind(directory, properties)

    def __enter__(self) -> Secured:
        self.broker.port = self.ports["PLAINTEXT"]
        self.broker.start()
        with WireClient(self.at("PLAINTEXT")) as client:
            for code in BY_CODE:
                response = client.call(upsertions(code, SCRAM_USERS), 0)
                assert {one.error_code for one in response.results} == {0}
        return self

    def __exit__(self, *_: Any) -> None:
        self.broker.kill()

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"


def upsertions(code: int, users: dict[str, str], iterations: int = 4096) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(
                name=name,
                mechanism=code,
                iterations=iterations,
                salt=SALT,
                salted_password=salted_password(BY_CODE[code], password, SALT, iterations),
            )
            for name, password in users.items()
        ]
    )


def secured_odradek(directory: Path) -> Secured:
    return Secured(OdradekProcess, directory)


def secured_kafka(directory: Path) -> Secured:
    return Secured(ApacheKafka, directory)
