"""Client settings of a test: for plain text, or for a user of a secured cluster.

`granted` puts the path of a client properties file, as Kafka's tools take it, into the environment, so that child processes
connect alike. Clients add the settings of this module to their own; without the file these are empty.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from odradek.client.properties import read_client_properties
from odradek.client.sasl import PasswordLogin
from odradek.client.security_options import jaas_options
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest

from .wire import WireClient

VARIABLE = "ODRADEK_TEST_CLIENT_PROPERTIES"


@contextlib.contextmanager
def granted(file: Path | None) -> Iterator[None]:
    """Makes clients connect with the properties of `file`; None means plain text."""
    before = os.environ.pop(VARIABLE, None)
    try:
        if file is not None:
            os.environ[VARIABLE] = str(file)
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def java() -> dict[str, str]:
    """Returns the properties without the bootstrap servers."""
    path = os.environ.get(VARIABLE)
    found = read_client_properties(Path(path)) if path else {}
    return {key: value for key, value in found.items() if key != "bootstrap.servers"}


def librdkafka(properties: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns librdkafka's settings for Java's `properties`, by default the granted ones."""
    found = java() if properties is None else properties
    if not found:
        return {}
    made = {"security.protocol": found["security.protocol"]}
    if "ssl.truststore.location" in found:
        made["ssl.ca.location"] = found["ssl.truststore.location"]
    if "ssl.keystore.location" in found:
        made |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), found["ssl.keystore.location"])
    if login := _login(found):
        made |= {"sasl.mechanism": login.mechanism, "sasl.username": login.username, "sasl.password": login.password}
    return made


def kafka_python() -> dict[str, Any]:
    found = java()
    if not found:
        return {}
    return {**_python(found), "ssl_cafile": found["ssl.truststore.location"]}


def aiokafka() -> dict[str, Any]:
    found = java()
    return {**_python(found), "ssl_context": _context(found)} if found else {}


def connect(bootstrap: str, *, timeout: float = 30) -> WireClient:
    """Returns a logged-in client for single requests. Raises OSError."""
    found = java()
    client = WireClient(bootstrap, timeout=timeout, tls=_context(found) if found else None)
    login = _login(found)
    if login is not None:
        try:
            log_in(client, login)
        except BaseException:
            client.close()
            raise
    return client


def log_in(client: WireClient, login: PasswordLogin) -> None:
    """Logs in. Raises ConnectionError if the broker rejects the login."""
    response = client.call(SaslHandshakeRequest(mechanism=login.mechanism), 1)
    if response.error_code:
        raise ConnectionError(f"{login.mechanism} is refused: {response.mechanisms}")
    exchange = login.client("")
    token: bytes | None = exchange.first()
    while token is not None:
        reported = client.call(SaslAuthenticateRequest(auth_bytes=token), 2)
        if reported.error_code:
            raise ConnectionError(reported.error_message)
        token = exchange.respond(reported.auth_bytes)


def _login(properties: Mapping[str, str]) -> PasswordLogin | None:
    if "sasl.jaas.config" not in properties:
        return None
    options = jaas_options(properties["sasl.jaas.config"])
    return PasswordLogin(properties["sasl.mechanism"], options["username"], options["password"])


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=properties["ssl.truststore.location"])


def _python(properties: Mapping[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {"security_protocol": properties["security.protocol"]}
    login = _login(properties)
    if login is not None:
        made |= {"sasl_mechanism": login.mechanism}
        made |= {"sasl_plain_username": login.username, "sasl_plain_password": login.password}
    return made
