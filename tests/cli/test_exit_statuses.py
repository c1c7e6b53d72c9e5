"""Exit statuses are those of docs/command-line.md, and options without a meaning are refused."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest

from compat_tests.cli.commands import Done, odradek_command

pytestmark = pytest.mark.usefixtures("sockets")

DEADLINE_S = 60
NOT_FOUND, MISUSED, INTERRUPTED = 3, 2, 130


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        running.topic("orders").send(b"1")
        yield running


def run(broker: odradek.Broker, *words: str) -> Done:
    return odradek_command(*words, "-b", broker.bootstrap_servers)


@pytest.mark.parametrize(
    "words",
    [
        "config set topic nosuch retention.ms=1",
        "config get topic nosuch",
        "config diff topic orders nosuch",
        "topic describe nosuch",
        "topic alter nosuch --config retention.ms=1",
        "topic alter nosuch --partitions 3",
        "topic delete nosuch",
        "topic trim nosuch --before end",
        "consume nosuch -o beginning",
        "consume orders -p 7 -o beginning",
        "group describe nosuch",
        "group lag nosuch",
        "group delete nosuch",
        "group reset nosuch --to end",
        "txn describe nosuch",
        "user delete nosuch",
        "context use nosuch",
    ],
)
def test_absent_things_have_status_3(broker: odradek.Broker, words: str) -> None:
    done = run(broker, *words.split()) if not words.startswith("context") else odradek_command(*words.split())
    assert done.status == NOT_FOUND, done
    assert (done.err.count("\n") == 1 and "nosuch" in done.err) or "no partition 7" in done.err


def test_values_that_the_broker_refuses_have_status_1(broker: odradek.Broker) -> None:
    done = run(broker, "config", "set", "topic", "orders", "retention.ms=soon")
    assert done.status == 1 and "odradek config get topic orders --all" in done.err


@pytest.mark.usefixtures("processes")
def test_ctrl_c_while_python_executes_text_has_status_130(tmp_path: Path) -> None:
    """Dataclasses and named tuples execute text when a module is imported. Python then remembers the interruption."""
    program = """
        import sys
        from odradek.cli import main
        from odradek.cli.messages import INTERRUPTED

        def interrupted(words):
            try:
                exec("import signal; signal.raise_signal(signal.SIGINT)")
            except KeyboardInterrupt:
                return INTERRUPTED

        main._run = interrupted
        sys.exit(main.main(["top"]))
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, "-m", "program"], cwd=tmp_path, timeout=DEADLINE_S, capture_output=True)
    assert (done.returncode, done.stderr) == (INTERRUPTED, b"")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("command", ["consume orders -o beginning --follow", "top --interval 30"])
def test_ctrl_c_has_status_130(broker: odradek.Broker, command: str) -> None:
    words = [sys.executable, "-m", "odradek", *command.split(), "-b", broker.bootstrap_servers]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    guard = threading.Timer(DEADLINE_S, process.kill)
    guard.start()
    try:
        assert process.stdout is not None and process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
    finally:
        guard.cancel()
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (INTERRUPTED, "")


@pytest.mark.parametrize(
    ("setting", "hint"),
    [("foo=bar", ""), ("linger=5", ", did you mean linger.ms?"), ("sasl.pasword=x", ", did you mean sasl.password?")],
)
def test_property_that_no_client_has_is_refused(broker: odradek.Broker, setting: str, hint: str) -> None:
    for words in (("topic", "list"), ("consume", "orders", "-o", "beginning"), ("context", "add", "x")):
        done = run(broker, *words, "-X", setting)
        assert done.status == MISUSED and done.err.count("\n") == 1
        assert f"{setting.partition('=')[0]!r} is not a property of a Kafka client{hint}" in done.err


@pytest.mark.parametrize("setting", ["client.id=me", "socket.keepalive.enable=true", "max.block.ms=5", "debug=all"])
def test_properties_of_java_and_librdkafka_pass(broker: odradek.Broker, setting: str) -> None:
    assert run(broker, "topic", "list", "-X", setting).status == 0


def test_quotas_are_printed_exactly(broker: odradek.Broker) -> None:
    done = run(broker, "quota", "set", "producer_byte_rate=1048576", "request_percentage=12.5", "--user", "alice")
    assert "producer_byte_rate=1048576\n" in done.out and "request_percentage=12.5\n" in done.out
    assert re.search(r"producer_byte_rate +1048576\n", run(broker, "quota", "list").out)


@pytest.mark.usefixtures("processes")
def test_start_warns_of_properties_without_a_meaning(tmp_path: Path) -> None:
    words = ["start", "--port", "0", "--data-dir", str(tmp_path), "--override", "num.partition=3", "--log-level", "off"]
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline().startswith("odradek: serving")
        process.terminate()
        _, errors = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    assert errors == (
        "odradek: warning: num.partition is not a known property and has no effect, did you mean num.partitions?\n"
    )
