"""User-defined classes in place of Kafka's callback handlers."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.client.sasl import AuthenticationFailed
from odradek.metadata.configs import InvalidConfig
from odradek.server.access.authentication.mechanism import Identity
from odradek.server.access.authentication.sasl_listeners import SaslListeners
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.security.exchanges import plain

MODULE = """
from odradek.server.access.authentication.oauth import TokenRejected
from odradek.server.access.authentication.authentication import Identity

class Users:
    def __call__(self, username, password):
        if username == "broken":
            raise RuntimeError(password)
        return password == "truthy" and "yes" or password == username[::-1]

class Tokens:
    def __call__(self, token, now_ms):
        if token != "right":
            raise TokenRejected("it is wrong")
        return Identity("tina", now_ms + 1000)

class Broken:
    def __init__(self):
        raise OSError("no database")
"""


@pytest.fixture(autouse=True)
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_checks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)


def listeners(mechanism: str, handler: str) -> SaslListeners:
    properties = {
        "listeners": "SASL_PLAINTEXT://:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": mechanism,
        f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.server.callback.handler.class": handler,
    }
    return SaslListeners(BrokerConfig(properties), MetadataCache())


def exchange(mechanism: str, handler: str, token: bytes) -> Identity | None:
    sasl = listeners(mechanism, handler).of("SASL_PLAINTEXT", "SASL_PLAINTEXT")
    assert sasl is not None
    server = sasl.settings().mechanisms[mechanism]()
    server.evaluate(token, 1_000)
    return server.identity


def test_an_own_check_decides_on_passwords() -> None:
    assert exchange("PLAIN", "python:own_checks:Users", plain("abc", "cba")) == Identity("abc")


@pytest.mark.parametrize("password", ["wrong", "truthy"])
def test_an_own_check_must_return_true(password: str) -> None:
    with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
        exchange("PLAIN", "python:own_checks:Users", plain("abc", password))


def test_an_own_check_that_raises_refuses_the_login_and_shows_nothing() -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        exchange("PLAIN", "python:own_checks:Users", plain("broken", "s3cret"))
    assert "s3cret" not in failed.value.reason + str(failed.value.shown)
    assert failed.value.__cause__ is None


def test_an_own_validator_decides_on_tokens() -> None:
    token = b"n,,\x01auth=Bearer right\x01\x01"
    assert exchange("OAUTHBEARER", "python:own_checks:Tokens", token) == Identity("tina", 2_000)
    assert exchange("OAUTHBEARER", "python:own_checks:Tokens", token.replace(b"right", b"wrong")) is None


@pytest.mark.parametrize(
    ("mechanism", "handler", "words"),
    [
        ("PLAIN", "python:own_checks:Missing", "AttributeError"),
        ("PLAIN", "python:no_such_module:Users", "ModuleNotFoundError"),
        ("PLAIN", "python:own_checks:Broken", "no database"),
        ("PLAIN", "python:own_checks", "name your own class as python:package.module:Name"),
        ("PLAIN", "com.acme.Handler", "is not supported for PLAIN"),
        ("SCRAM-SHA-256", "python:own_checks:Users", "is not supported for SCRAM-SHA-256"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused(mechanism: str, handler: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        listeners(mechanism, handler).of("SASL_PLAINTEXT", "SASL_PLAINTEXT")
