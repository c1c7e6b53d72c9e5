"""Completion by the shell: names of the cluster in use, with its security, and commands where two begin alike."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from odradek.cli.client import value_completion
from odradek.cli.client.value_completion import complete_group, complete_topic
from odradek.cli.main import main

from compat_tests.cli.commands import odradek_command

GROUPS = ("billing", "books", "browsers", "buyers")


@pytest.fixture(autouse=True)
def _own_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ODRADEK_BOOTSTRAP_SERVER", raising=False)


@pytest.fixture(scope="module")
def broker(sockets: None) -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        running.topic("sales").create()
        yield running


def completed(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The candidates for the last word of a line, as bash asks for them."""
    monkeypatch.setenv("_ODRADEK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    assert main([]) == 0
    return capsys.readouterr().out.split()


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("security", ["tls", "mtls", "scram", "plain"])
def test_names_of_a_secured_cluster_are_those_of_the_current_context(security: str) -> None:
    with odradek.Broker(security=security) as secured:
        secured.topic("sales").create()
        file = str(secured.client_properties_file())
        given = ("-b", secured.bootstrap_servers, "--command-config", file)
        assert odradek_command("consume", "sales", "--group", "billing", "-o", "beginning", *given).status == 0
        assert odradek_command("context", "add", "secured", *given).status == 0
        assert odradek_command("context", "use", "secured").status == 0
        assert complete_topic("s") == ["sales"] and complete_topic("x") == []
        assert complete_group("") == ["billing"]
        assert odradek_command("context", "add", "plain", "-b", secured.bootstrap_servers).status == 0
        assert odradek_command("context", "use", "plain").status == 0
        assert complete_topic("s") == []


@pytest.mark.usefixtures("sockets")
def test_groups_of_all_brokers_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    with odradek.Cluster(brokers=3, config={"offsets.topic.num.partitions": "12"}) as cluster:
        cluster.topic("sales").create()
        monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", cluster.bootstrap_servers)
        for group in GROUPS:
            done = odradek_command(
                "consume", "sales", "--group", group, "-o", "beginning", "-b", cluster.bootstrap_servers
            )
            assert done.status == 0, done.err
        assert complete_group("b") == sorted(GROUPS)
        assert complete_topic("") == ["sales"], "internal topics are left out"


def test_address_that_does_not_respond_delays_the_next_one_by_the_limit(
    broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_completion, "_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        no_brokers = [f"127.0.0.1:{one.getsockname()[1]}" for one in (closed, silent)]
        monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", ",".join([*no_brokers, broker.bootstrap_servers]))
        assert complete_topic("") == ["sales"]
        monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", ",".join(no_brokers))
        assert complete_topic("") == complete_group("") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("odradek top", {"top", "topic"}),
        ("odradek cluster desc", {"describe"}),
        ("odradek cluster describe --outp", {"--output"}),
        ("odradek cluster start --brok", {"--brokers"}),
        ("odradek start --po", {"--port"}),
        ("odradek group desc", {"describe"}),
        ("odradek consume x --isolation-level read_u", {"read_uncommitted"}),
    ],
)
def test_commands_options_and_choices_are_completed(
    line: str, expected: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(completed(line, monkeypatch, capsys)) == expected


@pytest.mark.parametrize(
    ("line", "expected", "other"),
    [
        ("odradek top", "topic", "consume"),
        ("odradek topic ", "describe", "consume"),
        ("odradek consume s", "sales", "x"),
    ],
)
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_give_the_line_up_to_the_cursor(
    broker: odradek.Broker,
    shell: str,
    line: str,
    expected: str,
    other: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_ODRADEK_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", broker.bootstrap_servers)
    monkeypatch.delenv("COMP_WORDS", raising=False)
    assert main([]) == 0
    found = capsys.readouterr().out
    assert expected in found and other not in found
