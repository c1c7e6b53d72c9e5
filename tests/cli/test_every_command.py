"""Every client command ends in time, with a status of the table in docs/command-line.md and words of its user.

Each runs with an address where nothing listens, with one where nothing responds, with names that do not exist, and with
an empty file of properties.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
import typer.main
from odradek.cli.client.commands import COMMANDS
from odradek.cli.client.running import app_of

from compat_tests.cli.commands import Done, odradek_command

pytestmark = pytest.mark.usefixtures("sockets")

NOT_FOUND, MISUSED, UNREACHABLE = 3, 2, 4
#: Limit of a request, and of a command: it may send several, to brokers that it tries in turn.
TIMEOUT_S, LIMIT_S = 2.0, 40.0
#: The arguments of each command. Names that begin with `typo` do not exist.
ARGUMENTS = {
    "topic alter": "typo --config retention.ms=1",
    "topic create": "typo",
    "topic delete": "typo --yes",
    "topic describe": "typo",
    "topic list": "",
    "topic trim": "typo --before end",
    "consume": "typo -o beginning",
    "query": "'select * from typo'",
    "archive": "typo --warehouse FOLDER --once",
    "table status": "typo",
    "table rebuild": "typo --warehouse FOLDER",
    "replay": "typo typo --warehouse FOLDER",
    "record": "typo --file FOLDER/records.jsonl",
    "produce": "typo",
    "group delete": "typo --yes",
    "group describe": "typo",
    "group lag": "typo",
    "group list": "",
    "group reset": "typo --to end --topic orders --yes",
    "config diff": "topic orders typo",
    "config get": "topic typo",
    "config set": "topic typo retention.ms=1",
    "txn abort": "typo --yes",
    "txn describe": "typo",
    "txn list": "",
    "txn producers": "typo",
    "cluster describe": "",
    "cluster quorum": "",
    "cluster features": "",
    "cluster set-feature": "typo=1",
    "cluster elect-leaders": "typo",
    "cluster log-dirs": "--topic typo",
    "reassign cancel": "typo",
    "reassign plan": "typo",
    "reassign run": "PLAN",
    "reassign status": "",
    "tier check": "--config STORE",
    "tier list": "typo",
    "tier repair": "--config STORE",
    "backup": "FOLDER/backup --topic typo",
    "restore": "FOLDER/typo",
    "doctor": "",
    "migrate check": "",
    "migrate plan": "",
    "bench consume": "--count 10",
    "bench latency": "--count 10",
    "bench produce": "--count 10",
    "top": "--iterations 1",
    "acl create": "--topic typo --allow User:typo --operation read",
    "acl delete": "--topic typo --yes",
    "acl list": "",
    "user delete": "typo --yes",
    "user list": "",
    "user set": "typo --password-file PASSWORD",
    "quota list": "",
    "quota set": "producer_byte_rate=1 --user typo",
    "token create": "",
    "token expire": "dHlwbw==",
    "token list": "",
    "token renew": "dHlwbw==",
    "mirror copy": "typo --acls",
    "mirror create": "typo --from 127.0.0.1:1 --topics typo",
    "mirror delete": "typo",
    "mirror fail-over": "typo --yes",
    "mirror list": "",
    "mirror pause": "typo",
    "mirror resume": "typo",
    "mirror reverse": "typo --yes",
    "mirror status": "typo",
    "mirror switch": "typo --yes",
    "mirror throttle": "typo 1000",
    "mirror verify": "typo",
}
#: One of each way to wait for a response. Each command takes seconds, so that the others run with the slow tests.
SILENT = ("topic list", "consume", "produce", "migrate check")
#: They need a registry or a browser, or only change a file.
ELSEWHERE = {"schema check", "schema delete", "schema get", "schema list", "schema register", "console", "context add"}
#: They read a backup or a table first, which is absent, too.
OF_FILES = {"restore", "replay", "table rebuild"}
#: The name is in the arguments, and its absence is no error.
CREATES = {
    "topic create",
    "acl create",
    "acl delete",
    "user set",
    "quota set",
    "token expire",
    "token renew",
    "mirror create",
}
#: Words of programs, which no user has asked about.
FOREIGN = re.compile(
    r"Traceback|__\w+__|\b[A-Z][A-Za-z]+(Request|Response|Error|Exception)\b|\bb['\"]|\bNone\b|<\w+ object|\b1 [a-z]+s\b"
)


def commands() -> Iterator[tuple[str, Any]]:
    """The words and the object of each command with a connection."""
    for words, command in COMMANDS.items():
        made = typer.main.get_command(app_of(command))
        for verb, one in getattr(made, "commands", {"": made}).items():
            if any("--bootstrap-server" in parameter.opts for parameter in one.params):
                yield " ".join((*words, *([verb] if verb else ()))), one


EVERY = dict(commands())


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        running.topic("orders").send(b"1")
        yield running


@pytest.fixture(scope="module")
def closed_port() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture(scope="module")
def silent_port() -> Iterator[str]:
    """The kernel accepts connections, and nothing reads from them."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(100)
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def run(command: str, bootstrap: str, folder: Path, *more: str) -> Done:
    """Runs the command with its arguments, and checks what holds for every command."""
    (folder / "password").write_text("a secret that is long")
    (folder / "plan").write_text('{"version":1,"partitions":[{"topic":"typo","partition":0,"replicas":[1]}]}')
    (folder / "store").write_text(
        "remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage\n"
        f"rsm.config.dir={folder}\n"
    )
    words = shlex.split(ARGUMENTS[command])
    for name in ("FOLDER", "PLAN", "STORE", "PASSWORD"):
        path = folder if name == "FOLDER" else folder / name.lower()
        words = [word.replace(name, str(path)) for word in words]
    began = time.monotonic()
    done = odradek_command(
        *command.split(), *words, "-b", bootstrap, "--timeout", f"{TIMEOUT_S:g}", *more, stdin=b"a\n"
    )
    assert time.monotonic() - began < LIMIT_S, done
    assert FOREIGN.search(done.err.replace(str(folder), "")) is None, done
    assert done.out or done.err, "the command is silent"
    return done


def test_each_command_is_here() -> None:
    assert ARGUMENTS.keys() | ELSEWHERE == EVERY.keys()


@pytest.mark.parametrize("command", ARGUMENTS)
def test_address_without_a_broker_ends_a_command(command: str, closed_port: str, tmp_path: Path) -> None:
    done = run(command, closed_port, tmp_path)
    if command in OF_FILES:
        assert done.status in (1, 2, NOT_FOUND, UNREACHABLE)
        return
    assert done.status == UNREACHABLE and closed_port in done.err, done
    lines = [line for line in done.err.splitlines() if "waits up to" not in line]
    assert len(lines) == 1, done


def with_silence() -> Iterator[Any]:
    for command in ARGUMENTS:
        yield pytest.param(command, marks=() if command in SILENT else pytest.mark.slow)


@pytest.mark.parametrize("command", with_silence())
def test_broker_that_does_not_respond_ends_a_command(command: str, silent_port: str, tmp_path: Path) -> None:
    done = run(command, silent_port, tmp_path)
    if command in OF_FILES:
        assert done.status in (1, 2, NOT_FOUND, UNREACHABLE), done
        return
    assert done.status == UNREACHABLE and silent_port in done.err, done


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["list", "get typo", "delete typo --yes", "check typo SCHEMA", "register typo SCHEMA"]
)
def test_registry_that_does_not_respond_ends_a_command(words: str, silent_port: str, tmp_path: Path) -> None:
    schema = tmp_path / "schema.avsc"
    schema.write_text('"string"')
    began = time.monotonic()
    registry = ("--schema-registry", f"http://{silent_port}")
    done = odradek_command("schema", *words.replace("SCHEMA", str(schema)).split(), *registry)
    assert time.monotonic() - began < LIMIT_S
    assert done.status == UNREACHABLE and silent_port in done.err and done.err.count("\n") == 1, done


def with_names() -> Iterator[tuple[str, bool]]:
    """The commands that name what must exist, and whether they run dry. Those of files name what is in a file."""
    for command, arguments in ARGUMENTS.items():
        if command in CREATES or command in OF_FILES or not ("typo" in arguments or "PLAN" in arguments):
            continue
        yield command, False
        if any("--dry-run" in parameter.opts for parameter in EVERY[command].params):
            yield command, True


@pytest.mark.parametrize(("command", "is_dry"), with_names())
def test_names_that_do_not_exist_are_named(broker: odradek.Broker, command: str, is_dry: bool, tmp_path: Path) -> None:
    done = run(command, broker.bootstrap_servers, tmp_path, *(["--dry-run"] if is_dry else []))
    assert done.status == NOT_FOUND and "typo" in done.err and done.err.count("\n") == 1, done
    assert not broker.topic("typo").exists


@pytest.mark.parametrize("command", [command for command in EVERY if command not in ELSEWHERE])
def test_empty_file_of_properties_is_refused(command: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty.properties"
    empty.write_text("# nothing\n")
    done = run(command, "127.0.0.1:1", tmp_path, "--command-config", str(empty))
    assert done.status == MISUSED and "has no properties" in done.err, done


@pytest.mark.parametrize("command", ARGUMENTS)
def test_empty_address_is_refused(command: str, tmp_path: Path) -> None:
    done = run(command, "", tmp_path)
    assert done.status in (MISUSED, NOT_FOUND) or command in OF_FILES, done


@pytest.mark.parametrize(
    ("words", "example"),
    [
        ("topic create x --config retention", "retention.ms="),
        ("config set topic x retention", "retention.ms="),
        ("quota set rate --user x", "producer_byte_rate="),
        ("cluster set-feature level", "metadata.version="),
        ("topic list -X id", "client.id="),
    ],
)
def test_example_is_of_the_option(words: str, example: str) -> None:
    done = odradek_command(*words.split(), "-b", "127.0.0.1:1")
    assert done.status == MISUSED and example in done.err and done.err.count("=") >= 2, done


# ---- commands with nothing to do, and numbers beyond what is there


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cluster elect-leaders", "nothing elected: preferred replicas lead, or are not in the ISR\n"),
        (
            "cluster elect-leaders --dry-run",
            "nothing would be elected: preferred replicas lead, or are not in the ISR\n",
        ),
        ("cluster elect-leaders --unclean", "nothing elected: every partition has a leader\n"),
        ("reassign cancel", "nothing cancelled: no replicas move\n"),
        ("topic create orders --if-not-exists", "nothing created\n"),
    ],
)
def test_command_without_work_says_so(broker: odradek.Broker, command: str, said: str) -> None:
    done = odradek_command(*command.split(), "-b", broker.bootstrap_servers)
    assert (done.status, done.out, done.err) == (0, said, "")


def test_empty_plan_says_so(broker: odradek.Broker, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    done = odradek_command("reassign", "plan", "--file", str(plan), "-b", broker.bootstrap_servers)
    assert done.status == 0 and "no replica moves" in done.err
    done = odradek_command("reassign", "run", str(plan), "-b", broker.bootstrap_servers)
    assert (done.status, done.out) == (0, f"nothing moved: {plan} has no partitions\n")


def test_plan_with_a_broker_that_does_not_exist_fails_in_a_dry_run(broker: odradek.Broker, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[77]}]}')
    for more in ((), ("--dry-run",)):
        done = odradek_command("reassign", "run", str(plan), *more, "-b", broker.bootstrap_servers)
        assert done.status == NOT_FOUND and "no broker 77" in done.err


def test_offsets_beyond_the_log_are_named(broker: odradek.Broker) -> None:
    broker.topic("ten").send(*(b"%d" % number for number in range(10)))
    reset = ("group", "reset", "clamped", "--create", "--topic", "ten")
    for position, offset in (("--to=9999999", 10), ("--shift=-50", 0), ("--shift=50", 10)):
        done = odradek_command(*reset, *position.split("="), "-b", broker.bootstrap_servers)
        assert done.status == 0 and f"its offset is {offset}, not " in done.err, done
    done = odradek_command(*reset, "--to", "-500", "-b", broker.bootstrap_servers)
    assert (done.status, done.err) == (0, "")
    done = odradek_command("topic", "trim", "ten", "--before", "99", "--dry-run", "-b", broker.bootstrap_servers)
    assert done.status == 0 and "ten-0 ends at 10" in done.err


LOGIN = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=a", "sasl.password=b")
LOGINS = ((), tuple(word for one in LOGIN for word in ("-X", one)))


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize(
    "words", ["topic list", "topic create typo", "consume typo -o beginning", "query 'select 1 from typo'"]
)
def test_port_of_another_protocol_ends_a_command_with_the_reason(words: str, login: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = server.accept()
                    with accepted, contextlib.suppress(OSError):
                        accepted.recv(1024)
                        accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        done = odradek_command(*shlex.split(words), *login, "-b", address)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert done.status == UNREACHABLE and done.err.count("\n") == 1, done
    assert address in done.err and "does not speak Kafka's protocol" in done.err, done


def numbers() -> Iterator[tuple[str, str]]:
    """The options of all commands that take a number with a fraction."""
    for command, made in EVERY.items():
        for parameter in made.params:
            if command in ARGUMENTS and parameter.type.name in ("float", "float range"):
                yield command, parameter.opts[0]


@pytest.mark.parametrize(("command", "option"), numbers())
def test_number_that_no_clock_counts_is_refused(command: str, option: str, closed_port: str, tmp_path: Path) -> None:
    for number in ("nan", "inf", "1e308"):
        done = run(command, closed_port, tmp_path, option, number)
        assert done.status == MISUSED and done.err.count("\n") == 1 and option in done.err, done


@pytest.mark.parametrize(
    "option", ["--partitions=99999999999999999999", "--replication-factor=32768", "--config=a=" + "x" * 40_000]
)
def test_value_that_no_request_carries_is_a_mistake(broker: odradek.Broker, option: str) -> None:
    done = odradek_command("topic", "create", "typo", option, "-b", broker.bootstrap_servers)
    assert done.status in (1, MISUSED) and done.err.count("\n") == 1 and "a bug" not in done.err, done


@pytest.mark.parametrize("words", ["group lag --max -1", "txn list --hanging --older-than-ms -1"])
def test_limit_below_nothing_is_a_mistake(broker: odradek.Broker, words: str) -> None:
    done = odradek_command(*words.split(), "-b", broker.bootstrap_servers)
    assert done.status == MISUSED and "-1 is not in the range" in done.err and done.err.count("\n") == 1, done


@pytest.mark.parametrize("words", ["group list --kind typo", "group list --state typo", "txn list --state typo"])
def test_kind_or_state_that_none_has_is_a_mistake(broker: odradek.Broker, words: str) -> None:
    done = odradek_command(*words.split(), "-b", broker.bootstrap_servers)
    assert done.status == MISUSED and "'typo' is not one of" in done.err and done.err.count("\n") == 1, done


@pytest.mark.parametrize(
    "words",
    [
        "topic create typo --config retention.ms=1 --config retention.ms=2", "topic list -X client.id=1 -X client.id=2",
        "config set topic orders retention.ms=1 retention.ms=2", "config set topic orders retention.ms=1 -d retention.ms",
        "quota set producer_byte_rate=1 -d producer_byte_rate --user u",
    ],
)  # fmt: skip
def test_key_with_two_values_is_a_mistake(broker: odradek.Broker, words: str) -> None:
    done = odradek_command(*words.split(), "-b", broker.bootstrap_servers)
    assert done.status == MISUSED and "twice" in done.err and done.err.count("\n") == 1, done


def paths() -> Iterator[tuple[str, Any]]:
    """The options and arguments of all client commands that are paths."""
    for words, command in COMMANDS.items():
        made = typer.main.get_command(app_of(command))
        for verb, one in getattr(made, "commands", {"": made}).items():
            for parameter in one.params:
                if parameter.type.name == "path":
                    yield " ".join((*words, *([verb] if verb else ()), parameter.name)), parameter


PATHS = dict(paths())


def test_commands_have_paths() -> None:
    assert {"archive warehouse", "archive command_config", "produce files", "user set password_file"} <= PATHS.keys()


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("text", ["", " ", "a\0b"])
def test_text_that_is_no_path_is_a_mistake(name: str, text: str) -> None:
    with pytest.raises(typer.BadParameter):
        PATHS[name].type(text, PATHS[name], None)


@pytest.mark.parametrize(
    "words",
    [
        "config get broker 99", "config get broker-logger 99", "config set broker 99 log.cleaner.threads=2",
        "config diff broker 99 98", "cluster log-dirs --broker 99",
    ],
)  # fmt: skip
def test_broker_that_no_metadata_has_is_named_at_once(broker: odradek.Broker, words: str) -> None:
    began = time.monotonic()
    done = odradek_command(*words.split(), "-b", broker.bootstrap_servers)
    assert done.status == NOT_FOUND and "no broker 99 runs" in done.err and done.err.count("\n") == 1, done
    assert time.monotonic() - began < LIMIT_S / 4


def test_transaction_is_named_in_one_way(broker: odradek.Broker) -> None:
    done = odradek_command("txn", "abort", "typo", "-t", "orders", "--yes", "-b", broker.bootstrap_servers)
    assert done.status == MISUSED and "give a TRANSACTIONAL-ID, or" in done.err, done


def test_password_file_that_cannot_be_read_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "latin1").write_bytes(b"\xe9")
    for name, reason in (("", "Is a directory"), ("typo", "No such file"), ("latin1", "UTF-8")):
        done = odradek_command("user", "set", "typo", "--password-file", str(tmp_path / name), "-b", "127.0.0.1:1")
        assert done.status == MISUSED and reason in done.err, done
