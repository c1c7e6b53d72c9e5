"""The requests with which a node gets its OAuth token: the same as Apache Kafka's, for each kind of credentials."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import pytest
from odradek.client.sasl import AuthenticationFailed
from odradek.metadata.configs import InvalidConfig

from compat_tests.java.program import java_command
from compat_tests.oracle import QUICK_JVM
from tests.security.harness.oauth_assertions import ISSUED, NODES, PREFIX, SecuredIssuer, key_file
from tests.security.harness.oauth_login import PACKAGE, first, login
from tests.security.issuer import KeyServer, is_signed

_SOURCE = Path(__file__).parent / "OAuthTokens.java"
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed"
_URL = "sasl.oauthbearer.token.endpoint.url"
_HEADERS = ("Accept", "Authorization", "Cache-Control", "Content-Type")
SECRET = {"clientId": KeyServer.CLIENT, "clientSecret": KeyServer.SECRET}


class Case(NamedTuple):
    retriever: str
    properties: Mapping[str, str] = {}
    options: Mapping[str, str] = {}
    is_secured: bool = False


class TokenSetup:
    """An issuer over HTTP, one over HTTPS, and the cases."""

    def __init__(self, directory: Path) -> None:
        self.plain, self.secured = KeyServer({}, ISSUED), SecuredIssuer(directory)
        self.servers = (self.plain, self.secured.server)
        template = directory / "template.json"
        template.write_text(
            json.dumps({"header": {"kid": "k1"}, "payload": {"team": "shop", "sub": "other", "exp": 1}})
        )
        assertion = directory / "assertion"
        assertion.write_text(NODES["RS256"].token(time.time()) + "\n")
        claims = {f"{PREFIX}claim.{name}": f"the {name}" for name in ("aud", "iss", "sub")}
        times = {
            f"{PREFIX}claim.exp.seconds": "100",
            f"{PREFIX}claim.nbf.seconds": "7",
            f"{PREFIX}claim.jti.include": "true",
        }
        keys = {name: {f"{PREFIX}private.key.file": str(key_file(directory, name))} for name in NODES}
        scope = {"sasl.oauthbearer.scope": "a b"}
        tls = dict(pair.split("=", 1) for pair in f"{self.secured.trusting} {self.secured.proving}".split())
        tls = {name: text.strip('"') for name, text in tls.items()}
        trusting = {name: text for name, text in tls.items() if "trust" in name}
        self.cases = {
            "an assertion": Case("JwtBearer", {**claims, **times, **scope, **keys["RS256"]}),
            "an assertion without claims": Case("JwtBearer", keys["RS256"], {"scope": "of the module"}),
            "a template": Case(
                "JwtBearer",
                {**claims, **keys["ES256"], f"{PREFIX}algorithm": "ES256", f"{PREFIX}template.file": str(template)},
            ),
            "a file": Case("JwtBearer", {f"{PREFIX}file": str(assertion), **claims}),
            "a file that is no token": Case("JwtBearer", {f"{PREFIX}file": str(template)}),
            "no key": Case("JwtBearer", claims),
            "a key of another algorithm": Case("JwtBearer", {**keys["RS256"], f"{PREFIX}algorithm": "ES256"}),
            "an assertion for a secret": Case("Default", {**claims, **keys["RS256"]}, {"clientId": "n", "scope": "s"}),
            "an assertion for a secret without a name": Case("ClientCredentials", {f"{PREFIX}file": str(assertion)}),
            "a secret": Case("ClientCredentials", {}, SECRET | {"scope": "s"}),
            "a wrong secret": Case("Default", {}, SECRET | {"clientSecret": "x"}),
            "TLS": Case("Default", scope, SECRET | tls, is_secured=True),
            "TLS without a certificate": Case("Default", {}, SECRET | trusting, is_secured=True),
            "TLS of a stranger": Case("Default", {}, SECRET, is_secured=True),
        }  # fmt: skip

    def url(self, name: str) -> str:
        """Returns the URL of a case; its path identifies the requests."""
        server = self.secured.server if self.cases[name].is_secured else self.plain
        return f"{server.url}/{name.replace(' ', '-')}"

    def taken(self, name: str) -> list[Any]:
        """Removes and returns the requests of a case: chosen headers and the form, with the content of each assertion."""
        found, path = [], self.url(name).partition("/keys")[2]
        for server in self.servers:
            for headers, form in zip(server.headers, server.asked, strict=True):
                if headers[":path"].endswith(path):
                    said = {key: said_in(key, *values) for key, values in form.items()}
                    found.append(({key: headers.get(key) for key in _HEADERS}, said))
        return found

    def forget(self) -> None:
        for server in self.servers:
            server.headers.clear()
            server.asked.clear()


def said_in(key: str, text: str) -> Any:
    """Returns the content of an assertion without the values that differ each time."""
    if not key.endswith("assertion"):
        return text
    header, claims = jwt.get_unverified_header(text), jwt.decode(text, options={"verify_signature": False})
    assert is_signed(text, NODES[header["alg"]].key.public_key())
    issued_s = claims.pop("iat")
    times = {name: claims.pop(name) - issued_s for name in ("exp", "nbf") if name in claims}
    return header, claims | {"jti": "jti" in claims}, times


@pytest.fixture(scope="module")
def token_setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenSetup]:
    made = TokenSetup(tmp_path_factory.mktemp("issuer"))
    made.plain.trusted += [issuer.key.public_key() for issuer in NODES.values()]
    with made.plain, made.secured.server:
        yield made


@pytest.fixture(scope="module")
def of_kafka(java_tools: None, token_setup: TokenSetup) -> dict[str, tuple[str, list[Any]]]:
    """Returns the result and the requests of Apache Kafka in each case."""
    words = []
    for name, case in token_setup.cases.items():
        properties = {
            _URL: token_setup.url(name),
            "sasl.login.retry.backoff.ms": "1",
            "sasl.login.retry.backoff.max.ms": "1",
            **case.properties,
        }
        words += [f"{PACKAGE}.{case.retriever}JwtRetriever", *(f"{key}={text}" for key, text in properties.items())]
        words += [*(f"jaas:{key}={text}" for key, text in case.options.items()), "--"]
    urls = ",".join(token_setup.url(name) for name in token_setup.cases)
    files = ",".join(text for case in token_setup.cases.values() for text in case.properties.values() if text[0] == "/")
    flags = (*QUICK_JVM, f"-D{_ALLOWED}.urls={urls}", f"-D{_ALLOWED}.files={files}")
    done = subprocess.run(
        java_command(_SOURCE, *words, jvm=flags), check=True, capture_output=True, text=True, timeout=120
    )
    results = done.stdout.split()
    assert len(results) == len(token_setup.cases), done.stdout + done.stderr
    found = {name: (result, token_setup.taken(name)) for name, result in zip(token_setup.cases, results, strict=True)}
    token_setup.forget()
    return found


def by_odradek(token_setup: TokenSetup, name: str) -> str:
    case = token_setup.cases[name]
    options = " ".join(f'{key}="{text}"' for key, text in case.options.items())
    retriever = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.{case.retriever}JwtRetriever"}
    try:
        return (
            "got" if first(login(token_setup.url(name), options, **retriever, **case.properties))["auth"] else "empty"
        )
    except (InvalidConfig, AuthenticationFailed):
        return "failed"


@pytest.mark.oracle
def test_requests_for_tokens_are_those_of_apache_kafka(
    token_setup: TokenSetup, of_kafka: dict[str, tuple[str, list[Any]]]
) -> None:
    ours = {name: (by_odradek(token_setup, name), token_setup.taken(name)) for name in token_setup.cases}
    assert ours == of_kafka
    assert {result for result, _ in ours.values()} == {"got", "failed"}
