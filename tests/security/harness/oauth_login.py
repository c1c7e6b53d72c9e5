"""Logins with tokens."""

from __future__ import annotations

from odradek.client.sasl import Login
from odradek.server.access.authentication.sasl_listeners import SaslListeners
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.security.issuer import KeyServer

PACKAGE = "org.apache.kafka.common.security.oauthbearer"


HANDLER = f"{PACKAGE}.OAuthBearerLoginCallbackHandler"


JAAS = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"


CREDENTIALS = f'clientId="{KeyServer.CLIENT}" clientSecret="{KeyServer.SECRET}"'


def login(url: str | None = None, options: str = "", handler: str | None = HANDLER, **more: str) -> Login:
    properties = {
        "listeners": "SASL_PLAINTEXT://:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        JAAS: f"{PACKAGE}.OAuthBearerLoginModule required {options};",
        "sasl.login.retry.backoff.ms": "50",
        **more,
    }
    if handler is not None:
        properties["listener.name.sasl_plaintext.oauthbearer.sasl.login.callback.handler.class"] = handler
    if url is not None:
        properties["sasl.oauthbearer.token.endpoint.url"] = url
    found = SaslListeners(BrokerConfig(properties), MetadataCache()).login("SASL_PLAINTEXT")
    assert found is not None
    return found


def first(found: Login) -> dict[str, str]:
    """Returns the key-value pairs of the client's first message."""
    parts = found.client("localhost").first().decode().split("\x01")
    assert (parts[0], parts[-2:]) == ("n,,", ["", ""])
    return dict(pair.split("=", 1) for pair in parts[1:-2])
