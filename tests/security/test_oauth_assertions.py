"""Tokens that a node requests with signed assertions (KIP-1139), and TLS to the issuer by options of the login module."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from odradek.client.sasl import AuthenticationFailed
from odradek.metadata.configs import InvalidConfig
from odradek.server.access.authentication.oauth import OAuthBearerServer
from odradek.server.access.authentication.sasl_listeners import SaslListeners
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.security.harness.oauth_assertions import ISSUED, NODES, PREFIX, SecuredIssuer, key_file
from tests.security.harness.oauth_login import CREDENTIALS, PACKAGE, first, login
from tests.security.issuer import AUDIENCE, ISSUER, KeyServer

BEARER = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever"}
PASSPHRASE = "assertion-s3cret-90d1"


@pytest.fixture
def endpoint(sockets: None) -> Iterator[KeyServer]:
    with KeyServer({}, ISSUED) as server:
        yield server


def payload(assertion: str, algorithm: str = "RS256") -> dict[str, Any]:
    public = NODES[algorithm].key.public_key()
    claims: dict[str, Any] = jwt.decode(assertion, public, [algorithm], options={"verify_aud": False})
    return claims


@pytest.mark.parametrize("algorithm", NODES)
def test_a_token_comes_for_an_assertion_that_the_node_signs(
    endpoint: KeyServer, tmp_path: Path, algorithm: str
) -> None:
    endpoint.trusted.append(NODES[algorithm].key.public_key())
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "k1", "alg": "none"}, "payload": {"team": "shop", "sub": "t"}}))
    more = {
        f"{PREFIX}algorithm": algorithm.lower(),
        f"{PREFIX}private.key.file": str(key_file(tmp_path, algorithm, PASSPHRASE)),
        f"{PREFIX}private.key.passphrase": PASSPHRASE,
        f"{PREFIX}claim.aud": "issuer",
        f"{PREFIX}claim.iss": "node",
        f"{PREFIX}claim.sub": "node-1",
        f"{PREFIX}claim.exp.seconds": "100",
        f"{PREFIX}claim.nbf.seconds": "10",
        f"{PREFIX}claim.jti.include": "true",
        f"{PREFIX}template.file": str(template),
        "sasl.oauthbearer.scope": "brokers",
    }
    found = login(endpoint.url, **BEARER, **more)
    assert first(found)["auth"].startswith("Bearer ")
    assert found.username == "node-1"
    (form,) = endpoint.asked
    assert (form["grant_type"], form["scope"]) == (["urn:ietf:params:oauth:grant-type:jwt-bearer"], ["brokers"])
    assert jwt.get_unverified_header(form["assertion"][0]) == {"kid": "k1", "alg": algorithm, "typ": "JWT"}
    claims = payload(form["assertion"][0], algorithm)
    issued_s = claims.pop("iat")
    assert abs(issued_s - time.time()) < 60
    assert len(claims.pop("jti")) == 36
    assert claims == {
        "aud": "issuer", "iss": "node", "sub": "t", "team": "shop", "exp": issued_s + 100, "nbf": issued_s - 10
    }  # fmt: skip


def test_an_assertion_in_a_file_is_sent_as_it_is_and_may_be_replaced(endpoint: KeyServer, tmp_path: Path) -> None:
    endpoint.trusted.append(NODES["RS256"].key.public_key())
    file = tmp_path / "assertion"
    old, new = (NODES["RS256"].token(time.time(), jti=name) for name in ("old", "new"))
    file.write_text(old)
    found = login(endpoint.url, **BEARER, **{f"{PREFIX}file": str(file)})
    file.write_text(f"{new}\n")
    first(found)
    assert endpoint.asked == [{"grant_type": ["urn:ietf:params:oauth:grant-type:jwt-bearer"], "assertion": [new]}]


def test_an_assertion_stands_for_the_secret_of_a_client(endpoint: KeyServer, tmp_path: Path) -> None:
    endpoint.trusted.append(NODES["RS256"].key.public_key())
    more = {f"{PREFIX}private.key.file": str(key_file(tmp_path)), f"{PREFIX}claim.iss": "node"}
    first(login(endpoint.url, 'clientId="node" scope="s"', **more))
    (form,) = endpoint.asked
    assert payload(form.pop("client_assertion")[0])["iss"] == "node"
    assert form == {
        "client_assertion_type": ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"],
        "grant_type": ["client_credentials"],
        "client_id": ["node"],
        "scope": ["s"],
    }
    assert "Authorization" not in endpoint.headers[0]


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("http://x", {}, "private.key.file is not set"),
        ("file:///token", {}, "needs an endpoint"),
        ("http://x", {"private.key.file": "/nowhere/key.pem"}, "no assertion can be made: FileNotFoundError"),
        ("http://x", {"private.key.file": "{key}", "private.key.passphrase": "wrong"}, "no assertion can be made"),
        ("http://x", {"private.key.file": "{key}", "algorithm": "ES256"}, "no assertion can be made"),
        ("http://x", {"file": "{key}"}, "assertion.file: no assertion can be made: ValueError"),
    ],
)
def test_a_node_that_could_make_no_assertion_does_not_start(
    url: str, more: dict[str, str], words: str, tmp_path: Path
) -> None:
    key = key_file(tmp_path, passphrase=PASSPHRASE if "private.key.passphrase" in more else "")
    with pytest.raises(InvalidConfig, match=words) as failed:
        login(url, **BEARER, **{PREFIX + name: text.format(key=key) for name, text in more.items()})
    assert "s3cret" not in str(failed.value)
    assert failed.value.__cause__ is None


# ---- TLS to the issuer


@pytest.fixture
def secured(sockets: None, tmp_path: Path) -> Iterator[SecuredIssuer]:
    made = SecuredIssuer(tmp_path)
    with made.server:
        yield made


def test_options_of_the_login_module_are_the_tls_of_the_endpoint(secured: SecuredIssuer) -> None:
    options = f"{CREDENTIALS} {secured.trusting} {secured.proving}"
    assert first(login(secured.server.url, options))["auth"].startswith("Bearer ")
    for fewer in (CREDENTIALS, f"{CREDENTIALS} {secured.trusting}"):
        with pytest.raises(AuthenticationFailed, match="this node has no token"):
            first(login(secured.server.url, fewer))
    with pytest.raises(InvalidConfig, match=r"sasl\.jaas\.config: .*key store password"):
        login(secured.server.url, f'{CREDENTIALS} ssl.keystore.location="k.jks"')


def test_options_of_the_login_module_are_the_tls_of_the_keys(secured: SecuredIssuer) -> None:
    prefix = "listener.name.sasl_plaintext.oauthbearer."
    properties = {
        "listeners": "SASL_PLAINTEXT://:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required {secured.trusting} {secured.proving};",
        "sasl.oauthbearer.jwks.endpoint.url": secured.server.url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    listeners = SaslListeners(BrokerConfig(properties), MetadataCache())
    sasl = listeners.of("SASL_PLAINTEXT", "SASL_PLAINTEXT")
    assert sasl is not None
    listeners.stop()
    server = sasl.settings().mechanisms["OAUTHBEARER"]()
    assert isinstance(server, OAuthBearerServer)
    server.evaluate(f"n,,\x01auth=Bearer {ISSUED.token(time.time())}\x01\x01".encode(), int(time.time() * 1000))
    assert server.identity is not None
    assert server.identity.name == "olga"
