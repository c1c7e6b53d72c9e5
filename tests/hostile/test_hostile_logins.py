"""Clients that try to bypass TLS and SASL: the broker rejects each, logs it once and serves other clients.

`test_half_open_handshakes.py` tests unfinished handshakes; compat_tests/security/test_sasl_sequences.py compares the
responses with those of Apache Kafka.
"""

from __future__ import annotations

import itertools
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from odradek.cli.scram_option import scram_user
from odradek.client.sasl import PasswordLogin
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import format_directories

from compat_tests.access import log_in
from compat_tests.broker_process import free_port
from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient
from tests.hostile.harness.loop_work import MOST_WORK_S, least_p99_work_s, p99_work_s
from tests.hostile.hostile_logins import (
    ISSUED,
    LOGIN_ATTACKS,
    OVERHEARD,
    PASSWORD,
    TOKEN_ATTACKS,
    USER,
    Attack,
    attempt,
)
from tests.hostile.renegotiator import Renegotiator
from tests.security.issuer import AUDIENCE, ISSUER
from tests.server.harness.certificates import Authority, pem_properties

pytestmark = pytest.mark.usefixtures("processes")

ATTEMPTS = 20
DEADLINE_S = 60
#: For all attacks together; a connection takes some kB, and none stays.
MOST_GROWTH_BYTES = 30 << 20
#: 6.6 MB: more than sockets and the broker's first read hold.
HELLOS = 200_000
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
#: Each attack comes from a source address of its own, by which the test finds its lines in the log.
_hosts = itertools.count(1)


class Target(OdradekProcess):
    """A broker with listeners for password logins, for tokens, and for TLS alone."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        names = ("LOGIN", "TOKENS", "TLS")
        self.at = {name: f"127.0.0.1:{free_port()}" for name in names}
        keys = directory / "keys.json"
        keys.write_text(json.dumps(ISSUED.key_set()))
        properties = {
            "log.dirs": str(directory / "logs"),
            "listeners": ",".join(f"{name}://{self.at[name]}" for name in names),
            "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,TOKENS:SASL_PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "LOGIN",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} user_{USER}="{PASSWORD}";',
            "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "connection.failed.authentication.delay.ms": "20",
            **pem_properties(authority.issue(name="node"), authority, directory / "tls"),
        }
        users = [scram_user(f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]")]
        format_directories(BrokerConfig(properties), users=users)
        super().__init__(directory, properties)

    def lines_about(self, source: str) -> list[str]:
        return [line for line in self.log_file.read_text().splitlines() if source in line]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def target(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with Target(tmp_path_factory.mktemp("hostile-logins"), authority) as running:
        assert isinstance(running, Target)
        with WireClient(running.at["LOGIN"]) as client:
            OVERHEARD.overhear(client)
        yield running


def lines_once_there(target: Target, source: str) -> list[str]:
    deadline = time.monotonic() + DEADLINE_S
    while not target.lines_about(source):
        assert time.monotonic() < deadline, "nothing was logged"
        time.sleep(0.02)
    return target.lines_about(source)


def check_refused_and_logged_once(target: Target, address: str, attack: Attack) -> None:
    source = f"127.7.0.{next(_hosts)}"
    assert all(attempt(address, attack, source) for _ in range(ATTEMPTS))
    lines = lines_once_there(target, source)
    assert len(lines) == 1, lines
    assert PASSWORD not in target.log_file.read_text()


@pytest.mark.parametrize("name", LOGIN_ATTACKS)
def test_attack_on_a_login_is_refused_and_logged_once(name: str, target: Target) -> None:
    check_refused_and_logged_once(target, target.at["LOGIN"], LOGIN_ATTACKS[name])


@pytest.mark.parametrize("name", TOKEN_ATTACKS)
def test_forged_or_stale_token_is_refused_and_logged_once(name: str, target: Target) -> None:
    check_refused_and_logged_once(target, target.at["TOKENS"], TOKEN_ATTACKS[name])


def test_renegotiation_is_refused_and_logged_once(target: Target, authority: Authority, tmp_path: Path) -> None:
    """The client sends hellos and reads no response. Only TLS 1.2 has renegotiation."""
    process = psutil.Process(target.pid)
    memory = process.memory_info().rss
    source = f"127.7.0.{next(_hosts)}"
    for number in range(2):
        client = Renegotiator(target.at["TLS"], authority.pem_text, tmp_path / str(number), source)
        hellos = b"".join(client.hello() for _ in range(HELLOS))
        with client.socket, pytest.raises(ConnectionError):
            client.socket.sendall(hellos)
            client.socket.sendall(hellos)  # if the first ones fit into the system's buffers
    (line,) = lines_once_there(target, source)
    assert "on TLS: it renegotiates TLS, which is not allowed" in line
    assert process.memory_info().rss - memory < MOST_GROWTH_BYTES
    with WireClient(target.at["TLS"], tls=ssl.create_default_context(cadata=authority.pem_text)) as served:
        assert served.call(ApiVersionsRequest(), 0).error_code == 0


def test_attacks_leave_a_good_client_its_latency_and_the_broker_its_memory(target: Target) -> None:
    every = [("LOGIN", attack) for attack in LOGIN_ATTACKS.values()]
    every += [("TOKENS", attack) for attack in TOKEN_ATTACKS.values()]
    process = psutil.Process(target.pid)
    is_over = threading.Event()
    inside: list[bool] = []

    def attack_until_over() -> None:
        for listener, attack in itertools.cycle(every):
            if is_over.is_set():
                return
            inside.append(not attempt(target.at[listener], attack, "127.8.0.1"))

    with WireClient(target.at["LOGIN"], source="127.0.0.2") as client:
        log_in(client, PasswordLogin("PLAIN", USER, PASSWORD))
        before_s, memory = p99_work_s(client, target.pid), process.memory_info().rss
        attackers = [threading.Thread(target=attack_until_over, daemon=True) for _ in range(4)]
        for one in attackers:
            one.start()
        try:
            during_s = least_p99_work_s(client, target.pid, max(2 * before_s, MOST_WORK_S))
        finally:
            is_over.set()
        for one in attackers:
            one.join(DEADLINE_S)
            assert not one.is_alive()
        assert len(inside) >= len(every)
        assert not any(inside)
        assert process.memory_info().rss - memory < MOST_GROWTH_BYTES
        assert during_s < max(2 * before_s, MOST_WORK_S), (before_s, during_s, len(inside))
