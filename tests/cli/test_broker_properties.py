"""`--port`, `--data-dir` and `--override` beside a file: conflicts are errors, all other values are combined."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.cli.broker_properties import properties_of
from odradek.cli.command_parser import UsageError
from odradek.cli.main import parser
from odradek.metadata.configs import InvalidConfig
from odradek.server.broker import BrokerServer
from odradek.server.config.broker_config import BrokerConfig

NODE = "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
CONTROLLER = "controller.quorum.voters=1@127.0.0.1:9093\n"


def properties(folder: Path, file: str | None, *words: str) -> dict[str, str]:
    if file is not None:
        (folder / "server.properties").write_text(file)
        words = (str(folder / "server.properties"), *words)
    return properties_of(parser().parse_args(["start", *words]))


@pytest.mark.parametrize(
    ("file", "words", "expected"),
    [
        (None, ["--port", "9095"], {"listeners": "PLAINTEXT://127.0.0.1:9095"}),
        ("listeners=PLAINTEXT://:9092\n", ["--port", "9092"], {"listeners": "PLAINTEXT://:9092"}),
        ("listeners=PLAINTEXT://:0\n", ["--port", "0"], {"listeners": "PLAINTEXT://:0"}),
        (
            f"{NODE}listeners=CONTROLLER://:9093\n",
            ["--port", "9095"],
            {"listeners": "PLAINTEXT://127.0.0.1:9095,CONTROLLER://:9093"},
        ),
        (
            "advertised.listeners=PLAINTEXT://localhost:9092\n",
            ["--port", "9095"],
            {"listeners": "PLAINTEXT://127.0.0.1:9095", "advertised.listeners": "PLAINTEXT://localhost:9092"},
        ),
        ("listeners=PLAINTEXT://:9092\n", ["--override", "listeners=", "--port", "1"], {"listeners": "PLAINTEXT://127.0.0.1:1"}),
        ("log.dirs=/a,/b\nlog.dir=/c\n", ["--data-dir", "/d"], {"log.dirs": "/d", "log.dir": None}),
        ("log.dirs=/a\n", ["--override", "log.dir=/d"], {"log.dirs": None, "log.dir": "/d"}),
        (None, ["--override", "log.dir=/d"], {"log.dirs": None, "log.dir": "/d"}),
        (None, [], {"log.dirs": "odradek-data"}),
        ("log.dirs=/a\n", ["--data-dir", "/d", "--override", "log.dirs=/d"], {"log.dirs": "/d"}),
        ("node.id=1\n", ["--override", "broker.id=2"], {"node.id": None, "broker.id": "2"}),
        ("log.retention.ms=1\n", ["--override", "log.retention.hours=24"], {"log.retention.ms": None}),
        (None, ["--override", "a=1", "--override", "a=1"], {"a": "1"}),
    ],
)  # fmt: skip
def test_agreeing_options_are_combined(
    tmp_path: Path, file: str | None, words: list[str], expected: dict[str, str | None]
) -> None:
    found = properties(tmp_path, file, *words)
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("file", "words", "parts"),
    [
        (
            "listeners=PLAINTEXT://:9092\n",
            ["--port", "9095"],
            ["--port 9095", "PLAINTEXT://:9092", "server.properties"],
        ),
        ("listeners=PLAINTEXT://:9092\n", ["--port", "0"], ["--port 0", "PLAINTEXT://:9092"]),
        ("listeners=SASL_PLAINTEXT://:9092\n", ["--port", "9095"], ["--port 9095", "SASL_PLAINTEXT://:9092"]),
        (None, ["--port", "1", "--override", "listeners=SSL://:2"], ["--port 1", "SSL://:2", "--override"]),
        ("advertised.listeners=EXTERNAL://h:1\n", ["--port", "1"], ["--port 1", "EXTERNAL"]),
        ("process.roles=controller\n", ["--port", "1"], ["--port 1", "controller only"]),
        (None, ["--data-dir", "a", "--override", "log.dirs=b"], ["--data-dir a", "log.dirs='b'"]),
        (None, ["--data-dir", "a", "--override", "log.dir=b"], ["--data-dir a", "log.dir='b'"]),
        (None, ["--override", "a=1", "--override", "a=2"], ["'a' twice"]),
    ],
)
def test_conflict_is_an_error_that_names_both(
    tmp_path: Path, file: str | None, words: list[str], parts: list[str]
) -> None:
    with pytest.raises(UsageError) as error:
        properties(tmp_path, file, *words)
    assert all(part in str(error.value) for part in parts), error.value


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
@pytest.mark.parametrize(
    "form",
    [
        "listeners={p}://:0\n",
        "listeners={p}://:0,PLAINTEXT://:0\n",
        "listeners=X://:0\nlistener.security.protocol.map=X:{p}\n",
        "listeners=PLAINTEXT://:0\nlistener.security.protocol.map=PLAINTEXT:{p}\n",
        "listeners=PLAINTEXT://:0\nsecurity.inter.broker.protocol={p}\n",
        "listeners=PLAINTEXT://:0\nadvertised.listeners={p}://h:1\n",
        f"{NODE}{CONTROLLER}listeners=PLAINTEXT://:0,CONTROLLER://:9093\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:{p}\n",
    ],
)
def test_listener_that_asks_for_security_is_never_served_without(tmp_path: Path, form: str, protocol: str) -> None:
    with pytest.raises(InvalidConfig):
        BrokerServer(BrokerConfig(properties(tmp_path, form.replace("{p}", protocol)))).network.listeners.bind()


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_broker_that_only_connects_to_controllers_over_tls_uses_tls(tmp_path: Path, protocol: str) -> None:
    """As with Apache Kafka, the broker needs no key of its own: the controller may authenticate it in another way."""
    file = (
        "process.roles=broker\nnode.id=2\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:0\n"
        f"{CONTROLLER}listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}\n"
    )
    tls = BrokerServer(BrokerConfig(properties(tmp_path, file))).network.listeners.tls
    tls.open()
    assert tls.of("CONTROLLER") is not None
    assert tls.of("PLAINTEXT") is None


@pytest.mark.parametrize(
    ("listener", "host", "is_rejected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("", "127.0.0.1", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "::", True),
        ("localhost", "127.0.0.1", True),
        ("127.0.0.1", "localhost", True),
        ("example.org", "127.0.0.1", True),
        ("192.168.1.5", "127.0.0.1", False),
        ("192.168.1.5", "localhost", False),
    ],
)
def test_metrics_have_a_port_of_their_own(listener: str, host: str, is_rejected: bool) -> None:
    said = {
        "listeners": f"PLAINTEXT://{listener}:9092",
        "advertised.listeners": "PLAINTEXT://h:9092",
        "odradek.metrics.port": "9092",
        "odradek.metrics.host": host,
    }
    if not is_rejected:
        BrokerConfig(said)
        return
    with pytest.raises(InvalidConfig, match=r"odradek\.metrics\.port=9092 is the port of listener PLAINTEXT"):
        BrokerConfig(said)


@pytest.mark.parametrize("port", ["-1", "65536", "99999", "9" * 30, "x", ""])
def test_port_of_metrics_that_no_machine_has_is_refused_by_its_key(port: str) -> None:
    with pytest.raises(InvalidConfig, match=r"odradek\.metrics\.port"):
        BrokerConfig({"odradek.metrics.port": port})


@pytest.mark.parametrize("key", ["controller.quorum.voters", "controller.quorum.bootstrap.servers", "listeners"])
def test_port_beyond_the_last_is_refused_by_its_key(key: str) -> None:
    form = {"controller.quorum.voters": "1@h:99999", "listeners": "PLAINTEXT://h:99999"}.get(key, "h:99999")
    with pytest.raises(InvalidConfig, match=key):
        BrokerConfig({key: form})
