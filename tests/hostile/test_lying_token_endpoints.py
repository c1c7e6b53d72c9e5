"""Token endpoints that are away, slow or lie: each command ends in one line and in its time-out, and sends no secret on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest

from compat_tests.cli.commands import Done, odradek_command
from tests.hostile.token_liars import CLIENT, SECRET, endpoint, liars, sends
from tests.security.issuer import AUDIENCE, ISSUER, Issuer, KeyServer

pytestmark = pytest.mark.usefixtures("sockets")

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
DENIED, MISUSED = 5, 2
TIMEOUT_S, LIMIT_S = 1.0, 5.0
ISSUED = Issuer()
LIARS = liars(ISSUED)


@pytest.fixture(scope="module")
def address(sockets: None) -> Iterator[str]:
    prefix = "listener.name.sasl_plaintext.oauthbearer"
    with KeyServer(ISSUED.key_set()) as keys:
        config = {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": (
                "SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}.sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
            f"{prefix}.sasl.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": keys.url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
        with odradek.Broker(config=config) as broker:
            listener = next(one for one in broker.server.network.listeners if one.name == "SASL_PLAINTEXT")
            yield f"127.0.0.1:{listener.endpoint.port}"


def run(address: str, url: str, *words: str) -> Done:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": SECRET,
    }
    options = [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]
    return odradek_command(*words, *options, "-b", address, "--timeout", f"{TIMEOUT_S:g}", stdin="a\n")


@pytest.mark.parametrize("command", ["topic list", "produce orders", "consume orders -o beginning"])
@pytest.mark.parametrize("liar", LIARS)
def test_lie_ends_a_command_with_its_reason(address: str, liar: str, command: str) -> None:
    reply, words = LIARS[liar]
    with endpoint(reply) as lying:
        began = time.monotonic()
        done = run(address, lying.url, *command.split())
        assert time.monotonic() - began < LIMIT_S, done
    line = next((one for one in done.err.splitlines() if one.startswith("odradek: ")), "")
    assert done.status == DENIED and words in line and done.out == "", done
    assert done.err.count("odradek: ") == 1 and SECRET not in done.err and "Traceback" not in done.err, done


def test_endpoint_that_is_away_is_named(address: str) -> None:
    with endpoint(sends(200, b"")) as gone:
        url = gone.url
    done = run(address, url, "topic", "list")
    assert done.status == DENIED and f"{url} gives no response: Connection refused" in done.err, done


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_takes_the_credentials_to_no_other_host(address: str, status: int) -> None:
    with endpoint(sends(200, b"{}")) as other, endpoint(sends(status, b"", Location=other.url)) as first:
        done = run(address, first.url, "topic", "list")
        assert done.status == DENIED and any(first.seen), done
        assert not any(other.seen), (status, other.seen)


def test_user_in_the_url_is_refused_and_not_shown(address: str, tmp_path: Path) -> None:
    done = run(address, f"https://{CLIENT}:{SECRET}@127.0.0.1:1/token", "topic", "list")
    assert done.status == MISUSED and "sasl.oauthbearer.token.endpoint.url" in done.err, done
    assert SECRET not in done.err + done.out, done
