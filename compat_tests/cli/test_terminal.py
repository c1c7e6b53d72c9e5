"""Output on a terminal: tables with lines, progress, prompts, and `top` on the whole screen."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

from compat_tests.cli.commands import odradek_command

DEADLINE_S = 60


def at_terminal(*words: str, response: str = "") -> tuple[int, str]:
    """Returns exit status and screen of a command at a terminal of 100 columns; `answer` is typed after a question mark."""
    primary, secondary = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "LINES": "40", "TERM": "xterm"}
    command = [sys.executable, "-m", "odradek", *words]
    process = subprocess.Popen(command, stdin=secondary, stdout=secondary, stderr=secondary, env=environment)
    os.close(secondary)
    screen, deadline, answered = b"", time.monotonic() + DEADLINE_S, not response
    output = select.poll()
    output.register(primary, select.POLLIN)
    try:
        while time.monotonic() < deadline:
            if output.poll(100):
                try:
                    piece = os.read(primary, 65536)
                except OSError:  # Linux: the other end is closed
                    break
                if not piece:
                    break
                screen += piece
            if not answered and b"?" in screen:
                os.write(primary, f"{response}\n".encode())
                answered = True
        return process.wait(DEADLINE_S), screen.decode()
    finally:
        process.kill()
        process.wait()
        os.close(primary)


def test_deletion_asks_first(three: str, topic: str) -> None:
    odradek_command("topic", "create", topic, "-b", three)
    status, screen = at_terminal("topic", "delete", topic, "-b", three, response="n")
    assert status == 1 and f"Delete {topic} with all records?" in screen and "nothing was changed" in screen
    status, screen = at_terminal("topic", "list", topic, "-b", three)
    assert status == 0 and "─" in screen and topic in screen.replace("\r\n", "")
    status, screen = at_terminal("topic", "delete", topic, "-b", three, response="y")
    assert status == 0 and f"deleted: {topic}" in screen


def test_long_work_shows_progress(three: str, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(3)]
    status, screen = at_terminal("topic", "create", *names, "-b", three)
    assert status == 0 and "creating topics" in screen and "3/3" in screen


def test_top_takes_the_screen_and_gives_it_back(three: str, topic: str) -> None:
    odradek_command("topic", "create", topic, "-b", three)
    status, screen = at_terminal("top", "-i", "2", "-n", "0.1", "--rows", "100", "-b", three)
    assert status == 0 and "\x1b[?1049h" in screen and "\x1b[?1049l" in screen
    assert "RECORDS/S" in screen
