"""The command in real processes, as a person or a script uses it."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

from compat_tests.wire import WireClient
from tests.cli.harness.started import SERVING

pytestmark = pytest.mark.usefixtures("processes")


def started(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "odradek", "start", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def serving_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    found = SERVING.match(line.rstrip("\n"))
    assert found, (line, process.stderr and process.stderr.read())
    return found["address"]


def ended(process: subprocess.Popen[str], number: int) -> int:
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == "", "one line on standard output, and no more"
    assert "Traceback" not in err, err
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_broker_cleanly(tmp_path: Path, number: int) -> None:
    process = started("--port", "0", "--data-dir", "data", cwd=tmp_path)
    host, port = serving_address(process).rsplit(":", 1)
    socket.create_connection((host, int(port))).close()
    assert ended(process, number) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


HANGING = """
import sys
from odradek.cli import foreground
from odradek.cli.main import main
from odradek.server.broker import BrokerServer

foreground.MOST_STOP_S, foreground.MOST_THREADS_STOP_S = 3.0, 0.5
HANGS = sys.argv.pop(1)
start = BrokerServer.start


def wait_for_a_writer():
    print("hangs", file=sys.stderr, flush=True)
    with open("fifo", "rb"):
        pass


async def started(broker):
    await start(broker)
    if HANGS == "thread":
        broker.node.pools.cpu.run_then(wait_for_a_writer, print)
    else:
        import asyncio, signal

        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, wait_for_a_writer)


BrokerServer.start = started
sys.exit(main())
"""


def stop_once_it_hangs(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Sends SIGTERM until the process has ended: Python acts on a signal before the hanging call only after that call."""
    deadline = time.monotonic() + 60
    while True:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=0.5)
        assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("hangs", "status", "words"), [("thread", 0, "threads are still"), ("loop", 1, "has not ended")]
)
def test_a_stop_ends_whatever_hangs(tmp_path: Path, hangs: str, status: int, words: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    command = [sys.executable, "-c", HANGING, hangs, "start", "--port", "0", "--data-dir", "data"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    serving_address(process)
    if hangs == "loop":
        process.send_signal(signal.SIGUSR1)
    assert process.stderr is not None
    assert process.stderr.readline() == "hangs\n"
    _, err = stop_once_it_hangs(process)
    assert process.returncode == status, err
    assert words in err and "Traceback" not in err
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists() is (hangs == "thread")


def test_signals_during_a_stop_do_not_kill_the_broker(tmp_path: Path) -> None:
    process = started("--port", "0", "--data-dir", "data", cwd=tmp_path)
    serving_address(process)
    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.002)
    assert process.returncode == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_an_empty_directory_is_formatted_and_keeps_its_cluster_id(tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        process = started("--port", "0", cwd=tmp_path)
        serving_address(process)
        assert ended(process, signal.SIGTERM) == 0
        ids.append(re.search(r"cluster\.id=(\S+)", (tmp_path / "odradek-data" / "meta.properties").read_text())[1])  # type: ignore[index]
    assert ids[0] == ids[1]


def test_format_makes_a_directory_that_start_takes(tmp_path: Path) -> None:
    form = [sys.executable, "-m", "odradek", "format", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg", "--data-dir", "data"]
    done = subprocess.run(form, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "MkU3OEVBNTcwNTJENDM2Qg" in done.stdout
    again = subprocess.run(form, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 1
    assert "formatted" in again.stderr
    process = started("--port", "0", "--data-dir", "data", cwd=tmp_path)
    serving_address(process)
    assert ended(process, signal.SIGTERM) == 0


def test_a_properties_file_of_kafka_works_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(
        "# a comment\n"
        "process.roles=broker,controller\n"
        "node.id=7\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"log.dirs={tmp_path / 'one'},{tmp_path / 'two'}\n"
        "num.partitions=3\n"
    )
    process = started("server.properties", "--override", "num.partitions=2", cwd=tmp_path)
    serving_address(process)
    assert ended(process, signal.SIGTERM) == 0
    assert "node.id=7" in (tmp_path / "one" / "meta.properties").read_text()
    assert (tmp_path / "two" / "meta.properties").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "0", "--override", "num.partitions=many"], "num.partitions"),
        (["--port", "0", "--override", "nonsense"], "KEY=VALUE"),
        (["missing.properties"], "missing.properties"),
    ],
)
def test_a_mistake_is_explained_in_one_line(tmp_path: Path, arguments: list[str], words: str) -> None:
    process = started(*arguments, cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("odradek: ")
    assert words in err
    assert "Traceback" not in err


def test_a_port_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = started("--port", str(port), cwd=tmp_path)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert str(port) in err
    assert "--port" in err


def test_a_data_directory_serves_one_broker_at_a_time(tmp_path: Path) -> None:
    first = started("--port", "0", "--data-dir", "data", cwd=tmp_path)
    serving_address(first)
    second = started("--port", "0", "--data-dir", "data", cwd=tmp_path)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "data" in err
    assert ended(first, signal.SIGTERM) == 0


def test_a_log_of_an_old_format_is_named_and_the_directory_is_as_it_was(tmp_path: Path) -> None:
    """The broker marks no directory clean and writes no checkpoint for logs that it never opened."""
    broker = started("--port", "0", "--data-dir", "data", cwd=tmp_path)
    with WireClient(serving_address(broker)) as client:
        topics = [CreatableTopic(name, 1, 1) for name in ("a", "b", "c")]
        client.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
    broker.kill()
    broker.communicate()
    body = struct.pack(">bbii", 0, 0, -1, 100) + bytes(100)
    message = struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body
    (tmp_path / "data" / "b-0" / f"{0:020d}.log").write_bytes(message)
    process = started("--port", "0", "--data-dir", "data", cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert "b-0/00000000000000000000.log has records of message format 0" in err
    assert "Traceback" not in err
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "data" / "b-0" / f"{0:020d}.log").read_bytes() == message


def test_help_shows_how_to_begin() -> None:
    done = subprocess.run([sys.executable, "-m", "odradek", "start", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    for word in ("--port", "--data-dir", "--override", "server.properties", "SIGTERM"):
        assert word in done.stdout
