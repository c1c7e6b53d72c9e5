"""Files and settings for clients of a secured broker: those of each client library under its own names."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from ...client.properties_file import format_properties
from .authority import Authority, write_secret
from .provisioning import Security

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
