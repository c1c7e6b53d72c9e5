"""Runs kaskade on a terminal of its own, by the steps on standard input, a JSON list: `screen.py WORD...`.

Steps: `["see", TEXT]` waits until the screen shows the text, `["gone", TEXT]` until it does not, `["cell", TEXT]` until a
box contains only the text, as an input does; `["type", TEXT]` types, `["press", KEY]` presses a key. At the end it prints
the screen. It runs in kaskade's environment, which has the terminal: pyte.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios
import time

import pyte

COLUMNS, ROWS = 200, 50
DEADLINE_S = 90
KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "down": "\x1b[B",
    "ctrl+d": "\x04",
    "ctrl+r": "\x12",
    "ctrl+s": "\x13",
    "f2": "\x1bOQ",
}


class Terminal:
    """A pseudo-terminal with kaskade in it, and its screen."""

    def __init__(self, command: list[str]) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.pid, self.primary = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
            os.execv(command[0], command)
        fcntl.ioctl(self.primary, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait(self, text: str, *, shown: bool) -> None:
        until = time.monotonic() + DEADLINE_S
        while (text in self.text) is not shown:
            if time.monotonic() > until:
                sys.exit(f"{text!r} is {'not ' if shown else ''}on the screen:\n{self.text}")
            self.read()

    def wait_for_cell(self, text: str) -> None:
        until = time.monotonic() + DEADLINE_S
        while not any(piece.strip() == text for line in self.text.splitlines() for piece in line.split("│")):
            if time.monotonic() > until:
                sys.exit(f"no box has {text!r} alone:\n{self.text}")
            self.read()

    def read(self) -> None:
        if select.select([self.primary], [], [], 0.1)[0]:
            try:
                self.stream.feed(os.read(self.primary, 65536))
            except OSError:
                sys.exit(f"kaskade has ended:\n{self.text}")

    def send(self, text: str) -> None:
        os.write(self.primary, text.encode())

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def main() -> None:
    steps = json.load(sys.stdin)
    terminal = Terminal([f"{sys.prefix}/bin/kaskade", *sys.argv[1:]])
    try:
        for action, what in steps:
            if action in ("see", "gone"):
                terminal.wait(what, shown=action == "see")
            elif action == "cell":
                terminal.wait_for_cell(what)
            else:
                terminal.send(KEYS[what] if action == "press" else what)
        print(terminal.text)
    finally:
        terminal.close()


if __name__ == "__main__":
    main()
