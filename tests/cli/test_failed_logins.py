"""Failed logins end every command in under a second, with status 5 and the reason: each kind of failure and of command.

Commands run in this process, so a time has no start of a process in it. Modules are loaded by a first run.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import odradek
import pytest
from odradek.admin.connection import Connection

from compat_tests.cli.commands import Done, odradek_command

pytestmark = pytest.mark.usefixtures("sockets")

DENIED = 5
LIMIT_S = 1.0
#: A busy machine may hold up one of them.
ATTEMPTS = 3


class Ports(NamedTuple):
    """Brokers without security, with TLS, with SCRAM over TLS and over plain text, and with PLAIN over TLS."""

    none: odradek.Broker
    tls: odradek.Broker
    scram: odradek.Broker
    plain: odradek.Broker


@pytest.fixture(scope="module")
def ports() -> Iterator[Ports]:
    with (
        odradek.Broker() as none,
        odradek.Broker(security="tls") as tls,
        odradek.Broker(security="scram") as scram,
        odradek.Broker(security="plain") as plain,
    ):
        yield Ports(none, tls, scram, plain)


#: By name of the failure: the broker, the client properties, and words of the reason.
FAILURES: dict[str, tuple[str, dict[str, str], str]] = {
    "wrong password": ("scram", {"sasl.password": "wrong"}, "rejected the login of admin: Authentication failed"),
    "wrong password of PLAIN": (
        "plain",
        {"sasl.password": "wrong"},
        "rejected the login of admin: Authentication failed",
    ),
    "unknown user": ("scram", {"sasl.username": "nobody"}, "rejected the login of nobody: Authentication failed"),
    "disabled mechanism": ("plain", {"sasl.mechanism": "SCRAM-SHA-512"}, "does not offer SCRAM-SHA-512, but PLAIN"),
    "no login": ("scram", {"security.protocol": "SSL"}, "expects a login by SASL, and security.protocol is SSL"),
    "neither TLS nor login": ("scram", {"security.protocol": "PLAINTEXT"}, "expects TLS, and security.protocol is"),
    "login without TLS": ("scram", {"security.protocol": "SASL_PLAINTEXT"}, "expects TLS, and security.protocol is"),
    "missing authority": ("scram", {"ssl.ca.location": ""}, "its certificate is not trusted: "),
    "missing authority of TLS": ("tls", {"ssl.ca.location": ""}, "its certificate is not trusted: "),
    "plain text to TLS": ("tls", {"security.protocol": "PLAINTEXT"}, "expects TLS, and security.protocol is PLAINTEXT"),
    "TLS to plain text": ("none", {"security.protocol": "SSL"}, "has no TLS, and security.protocol is SSL"),
    "login at a port without": ("none", {"security.protocol": "SASL_PLAINTEXT"}, "has no login by SASL"),
    "login over TLS at plain text": ("none", {"security.protocol": "SASL_SSL"}, "has no TLS, and security.protocol is"),
    "login at a port with TLS": ("tls", {"security.protocol": "SASL_SSL"}, "has no login by SASL"),
}
COMMANDS = [
    "topic list",
    "topic create new",
    "topic describe orders",
    "group list",
    "config get topic orders",
    "config get broker default",
    "acl list",
    "user list",
    "quota list",
    "token list",
    "txn list",
    "cluster describe",
    "cluster elect-leaders",
    "reassign status",
    "doctor",
    "migrate plan",
    "migrate check",
    "mirror list",
    "record orders --file FOLDER",
    "top --iterations 1",
    "consume orders -o beginning",
    "consume orders -o beginning --group g",
    "produce orders",
    "produce orders --transactional",
    "bench produce --count 1",
    "bench consume --count 1",
    "tier list",
    "backup FOLDER",
    "query SQL",
    "archive orders --once --parquet FOLDER",
]


def properties_of(ports: Ports, kind: str) -> tuple[str, dict[str, str]]:
    """The address, and properties with which the login fails."""
    port, changed, _ = FAILURES[kind]
    broker: odradek.Broker = getattr(ports, port)
    # Users and authority of the broker with SCRAM, where this one has none: only what is named is wrong.
    settings = {
        **ports.scram.client_settings("confluent-kafka"),
        **broker.client_settings("confluent-kafka"),
        **changed,
    }
    address = settings.pop("bootstrap.servers")
    return address, {key: value for key, value in settings.items() if value}


def run(address: str, properties: dict[str, str], command: str, folder: Path) -> Done:
    words = command.replace("FOLDER", str(folder)).split()
    words = ["query", "SELECT count(*) FROM orders"] if words[0] == "query" else words
    options = [word for key, value in properties.items() for word in ("-X", f"{key}={value}")]
    return odradek_command(*words, *options, "-b", address, stdin="a record\n")


@pytest.fixture(scope="module")
def loaded(ports: Ports, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Loads the modules of every command."""
    for command in COMMANDS:
        run(*properties_of(ports, "TLS to plain text"), command, tmp_path_factory.mktemp("loaded"))


#: One command of each client: requests of our own, a consumer, a producer, and a scan.
ONE_OF_EACH = ("topic list", "consume orders -o beginning", "produce orders", "query SQL")
#: One failure of each layer: the login, its lack, and TLS.
ONE_OF_EACH_LAYER = ("wrong password", "no login", "missing authority")
CASES = [
    *((command, kind) for command in ONE_OF_EACH for kind in FAILURES),
    *((command, kind) for command in COMMANDS if command not in ONE_OF_EACH for kind in ONE_OF_EACH_LAYER),
]


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(("command", "kind"), CASES)
def test_command_ends_at_once_with_the_reason(ports: Ports, tmp_path: Path, command: str, kind: str) -> None:
    address, properties = properties_of(ports, kind)
    times = []
    for attempt in range(ATTEMPTS):
        began = time.monotonic()
        done = run(address, properties, command, tmp_path / f"folder-{attempt}")
        times.append(time.monotonic() - began)
        if times[-1] < LIMIT_S:
            break
    assert done.status == DENIED, done
    assert FAILURES[kind][2] in done.err and address in done.err, done
    assert done.err.count("\n") == 1 and done.out == "", done
    assert "may or may not" not in done.err
    assert min(times) < LIMIT_S, (times, done)


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("command", ["produce orders", "consume orders -o beginning"])
def test_error_of_the_library_ends_a_command_at_once(ports: Ports, tmp_path: Path, command: str) -> None:
    """Without the login before it: the library itself gets the rejection, as it does when a password changes later."""
    address, properties = properties_of(ports, "wrong password")
    with patch.object(Connection, "reach"):
        began = time.monotonic()
        done = run(address, properties, command, tmp_path)
        took_s = time.monotonic() - began
    assert done.status == DENIED and "uthentication failed" in done.err and done.err.count("\n") == 1, done
    assert took_s < 5 * LIMIT_S, (took_s, done)


def test_records_that_were_not_sent_are_not_said_to_be_written_perhaps(ports: Ports, tmp_path: Path) -> None:
    with patch.object(Connection, "reach"), socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done = run(address, {"socket.timeout.ms": "300"}, "produce orders --timeout 1", tmp_path)
    assert done.status == 4 and "no response from" in done.err and "may or may not" not in done.err, done
