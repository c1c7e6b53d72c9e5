"""The command line as its users know others: aliases, one hint, help at the terminal's width, TLS explained."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import odradek
import pytest

from compat_tests.cli.commands import Done, odradek_command

DEADLINE_S = 60


@pytest.fixture(scope="module")
def broker(sockets: None) -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        for topic in ("orders-eu", "orders-us", "sales"):
            running.topic(topic).send(f"{topic}-1".encode(), f"{topic}-2".encode())
        yield running


def run(broker: odradek.Broker, *words: str) -> Done:
    return odradek_command(*words, "-b", broker.bootstrap_servers)


def test_bare_command_shows_its_help() -> None:
    done = odradek_command()
    assert done.status == 0 and done.out == odradek_command("--help").out != ""


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("topic", "lst"), "No such command 'lst', did you mean list?;"),
        (("topic", "decsribe"), "No such command 'decsribe', did you mean describe?;"),
        (
            ("topic", "list", "--bootstrap-serve", "x"),
            "No such option: --bootstrap-serve, did you mean --bootstrap-server?;",
        ),
        (("start", "--prot"), "unrecognized arguments: --prot, did you mean --port?;"),
    ],
)
def test_mistake_has_one_hint(words: tuple[str, ...], hint: str) -> None:
    done = odradek_command(*words)
    assert done.status == 2 and hint in done.err and done.err.lower().count("did you mean") == 1


def test_aliases_are_the_commands(broker: odradek.Broker) -> None:
    assert run(broker, "topic", "ls", "--output", "json").json == run(broker, "topic", "list", "--output", "json").json
    assert run(broker, "topic", "create", "old").status == 0
    assert run(broker, "topic", "rm", "old").out == "deleted: old\n"
    assert odradek_command("context", "add", "lab", "-b", broker.bootstrap_servers).status == 0
    assert odradek_command("context", "rm", "lab").out == "removed: lab\n"


def test_count_has_the_name_of_kcats_and_rpks_users(broker: odradek.Broker) -> None:
    assert run(broker, "consume", "sales", "-o", "beginning", "-n", "1").out == "sales-1\n"


def test_topics_are_chosen_by_an_expression(broker: odradek.Broker) -> None:
    done = run(broker, "consume", "--regex", "orders-.*", "-o", "beginning")
    assert sorted(done.out.split()) == ["orders-eu-1", "orders-eu-2", "orders-us-1", "orders-us-2"]
    assert run(broker, "consume", "--regex", "orders", "-o", "beginning").status == 3
    assert run(broker, "consume", "--regex", "(", "-o", "beginning").status == 2


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("command", ["consume", "topic create", "repair", "start", "group"])
def test_help_has_the_width_of_the_terminal(command: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"COLUMNS": str(columns), "PATH": "/usr/bin:/bin"}
    words = [sys.executable, "-m", "odradek", *command.split(), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment, timeout=DEADLINE_S)
    longest = max(map(len, done.stdout.splitlines()))
    assert longest <= columns
    if columns > 80 and command in ("consume", "topic create"):
        assert longest > 80, "long lines use the width"


@pytest.mark.usefixtures("sockets")
def test_plaintext_to_a_port_with_tls_is_explained() -> None:
    with odradek.Broker(security="tls") as secured:
        for words in (("topic", "list"), ("consume", "x", "-o", "beginning")):
            done = odradek_command(*words, "-b", secured.bootstrap_servers, "--timeout", "20")
            assert done.status == 5 and "expects TLS, and security.protocol is PLAINTEXT" in done.err, done
            assert "set security.protocol=SSL" in done.err and done.err.count("\n") == 1
        ca = f"ssl.truststore.location={secured.ca_file}"
        words = ("topic", "list", "-X", "security.protocol=SSL", "-X", ca, "-X", "ssl.truststore.type=PEM")
        assert odradek_command(*words, "-b", secured.bootstrap_servers).status == 0


def test_tls_to_a_port_without_it_is_explained(broker: odradek.Broker) -> None:
    for words in (("topic", "list"), ("consume", "sales", "-o", "beginning")):
        done = run(broker, *words, "-X", "security.protocol=SSL", "--timeout", "20")
        assert done.status == 5 and "has no TLS, and security.protocol is SSL" in done.err, done
        assert "security.protocol=PLAINTEXT" in done.err and done.err.count("\n") == 1


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("odradek ", {"topic", "start"}),
        ("odradek topic cre", {"create"}),
        ("odradek consume sal", {"sales"}),
        ("odradek group describe bil", {"billing"}),
    ],
)
def test_completion_imports_only_the_command_that_it_completes(
    broker: odradek.Broker, line: str, candidates: set[str]
) -> None:
    """Counts modules rather than time: clients and engines that the line does not need take most of it."""
    assert run(broker, "consume", "sales", "--group", "billing", "-o", "beginning").status == 0
    program = (
        "import sys; from odradek.cli.main import main\n"
        "names = {'kafka', 'confluent_kafka', 'pyarrow', 'duckdb', 'starlette', 'asyncio', 'ssl', 'http', 'tempfile'}\n"
        "try: main([])\n"
        "finally: print(*(sys.modules.keys() & names), file=sys.stderr)"
    )
    environment = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "_ODRADEK_COMPLETE": "complete_bash",
        "ODRADEK_BOOTSTRAP_SERVER": broker.bootstrap_servers,
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=DEADLINE_S,
    )
    assert candidates <= set(done.stdout.split())
    assert done.stderr.strip() == ""
