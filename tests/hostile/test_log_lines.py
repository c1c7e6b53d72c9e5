"""Log lines that peers provoke: the broker writes each once, counts its repetitions, and bounds its length and number."""

from __future__ import annotations

import logging
import random
import re
import socket
import struct
from pathlib import Path

import pytest
from odradek.cli.logs import MOST_MESSAGE_CHARACTERS, OneLineFormatter
from odradek.client.shown_text import MOST_VALUE_CHARACTERS, shown
from odradek.server.runtime.log_lines import MOST_KEYS, MOST_KEYS_OF_ONE, RepeatedLines

from compat_tests.broker_process import free_port
from compat_tests.odradek_process import OdradekProcess

log = logging.getLogger("odradek.test")


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def node_with_controllers(directory: Path) -> OdradekProcess:
    """Returns a single node whose controller has a port of its own."""
    listeners = f"PLAINTEXT://127.0.0.1:{free_port()},CONTROLLER://127.0.0.1:{free_port()}"
    return OdradekProcess(directory / "node", {"listeners": listeners, "controller.listener.names": "CONTROLLER"})


def targets(node: OdradekProcess) -> list[str]:
    return [address.partition("://")[2] for address in node.properties["listeners"].split(",")]


def send_and_wait_for_end(address: str, frame: bytes) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as made:
        made.sendall(frame)
        try:
            while made.recv(65536):
                pass
        except ConnectionResetError:
            pass


@pytest.mark.usefixtures("processes")
def test_unsupported_version_makes_one_line_and_a_count(tmp_path: Path) -> None:
    frame = framed(struct.pack(">hhih", 0, 99, 1, -1))
    with node_with_controllers(tmp_path) as node:
        for address in targets(node):
            for _ in range(200):
                send_and_wait_for_end(address, frame)
        assert len(re.findall("closing the connection", node.log_file.read_text())) == 2
        assert node.stop() == 0
        counts = re.findall(r"(\d+) more like: closing the connection", node.log_file.read_text())
        assert counts == ["199", "199"]


@pytest.mark.usefixtures("processes")
def test_every_kind_of_broken_frame_makes_few_lines_without_control_characters(tmp_path: Path) -> None:
    dice = random.Random(7)
    texts = [b"a\nFORGED line", b"\x1b[2J\x1b[31m", "\u202e\u2028".encode(), b"\0\r", b"x" * 30_000]
    with node_with_controllers(tmp_path) as node:
        for number in range(400):
            text = texts[number % len(texts)]
            head = struct.pack(">hhih", dice.randrange(-5, 100), dice.randrange(-2, 20), number, len(text)) + text
            frames = (
                framed(head + dice.randbytes(50)),
                struct.pack(">i", dice.randrange(-(2**31), -1)),
                framed(b"\0\1"),
            )
            send_and_wait_for_end(targets(node)[number % 2], dice.choice(frames) + bytes(4))
        written = node.log_file.read_text(errors="replace")
        lines = written.split("\n")[:-1]
        assert len([line for line in lines if "blocked the event loop" not in line]) <= 2 * MOST_KEYS_OF_ONE, written
        for line in lines:
            assert re.match(r"\d{4}-\d\d-\d\d ", line), line
            assert line.isprintable()
            assert len(line) < 1000
        assert "a bug:" not in written
        assert node.is_running


# Units.


@pytest.mark.parametrize("text", ["a\nb", "a\r\n\tb", "\x1b[31mred", "\x00", "\u2028", "\u202e", "\ud800"])
def test_control_characters_are_escaped(text: str) -> None:
    assert shown(text).isprintable()


def test_long_text_is_cut_and_says_so() -> None:
    found = shown("\n" * 32_767)
    assert len(found) < MOST_VALUE_CHARACTERS + 40
    assert found.endswith("... (32767 characters)")
    assert shown("x" * MOST_VALUE_CHARACTERS) == "x" * MOST_VALUE_CHARACTERS
    assert shown(None) == "None"


def test_formatter_keeps_a_message_on_one_line_and_a_traceback_whole() -> None:
    formatter = OneLineFormatter("%(levelname)s: %(message)s")
    record = logging.LogRecord("x", logging.ERROR, "", 0, "from %s", ("\n" * 9000,), None)
    line = formatter.format(record)
    assert "\n" not in line
    assert len(line) < MOST_MESSAGE_CHARACTERS + 60
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    assert "Traceback (most recent call last)" in formatter.format(record)


async def test_counts_are_logged_each_period_and_keys_without_any_are_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = RepeatedLines()
    for _ in range(5):
        lines.log(log, logging.WARNING, "10.0.0.1", "kind", "words")
    lines.log(log, logging.WARNING, "10.0.0.2", "kind", "others")
    assert [record.getMessage() for record in caplog.records] == ["words", "others"]
    lines._end_period()
    lines.log(log, logging.WARNING, "10.0.0.1", "kind", "words")
    lines._end_period()
    lines._end_period()
    assert [record.getMessage() for record in caplog.records[2:]] == ["4 more like: words", "1 more like: words"]
    assert not lines._seen
    assert lines._timer is None


async def test_keys_are_bounded_for_one_peer_and_for_all(caplog: pytest.LogCaptureFixture) -> None:
    lines = RepeatedLines()
    for number in range(1000):
        lines.log(log, logging.WARNING, "10.0.0.1", number, f"reason {number}")
    assert len(caplog.records) == MOST_KEYS_OF_ONE + 1
    for number in range(10_000):
        lines.log(log, logging.WARNING, f"10.1.{number}", "kind", "words")
    assert len(lines._seen) <= MOST_KEYS + 1
    caplog.clear()
    lines.stop()
    counted = sum(int(record.getMessage().split()[0]) for record in caplog.records)
    assert counted == 11_000 - (MOST_KEYS + 1)
