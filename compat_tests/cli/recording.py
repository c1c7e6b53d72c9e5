"""A recording of a terminal: commands typed into a shell in a pseudo-terminal, against a broker that the first one starts.

`recorded` types STEPS and returns what the terminal showed, with times. `Recording.cast` is the file of asciinema (version
2), recorded_svg.py the picture of docs/specialists/command-line-tour.md. The broker has a port of four digits, which becomes
9092 in the recording, so tables keep their widths. Pauses for reading are added to the times; the program does not wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import random
import re
import select
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

#: (command, line that its output has). The block of the page shows both.
STEPS: tuple[tuple[str, str], ...] = (
    ("odradek start --port 9092 --data-dir data > broker.txt &", ""),
    ("until grep serving broker.txt; do sleep 0.1; done", "odradek: serving on 127.0.0.1:9092 (data in data)"),
    ("odradek context add local -b 127.0.0.1:9092", "added: local (in use)"),
    ("odradek topic create orders --partitions 3", "created: orders"),
    (
        """seq 1000 | sed 's/.*/customer-&:{"total": &}/' | odradek produce orders -K :""",
        "produced: 1000 records to orders",
    ),
    ("odradek topic describe orders", ""),
    (
        "odradek consume orders --from-beginning --where '@.total == 998' -f '%k %s\\n'",
        'customer-998 {"total": 998}',
    ),
    ("odradek consume orders -g billing -X group.protocol=consumer --from-beginning -c 1000 > read.txt", ""),
    ("seq 24 | odradek produce orders", "produced: 24 records to orders"),
    ("odradek group lag billing --total", "billing            3    24             0         0"),
    ("odradek config set topic orders retention.ms=3600000", "set: topic orders: retention.ms=3600000"),
    ("odradek cluster describe", ""),
    ("odradek doctor", "nothing was found"),
    ("odradek topic delete orders --yes", "deleted: orders"),
    ("kill %1; wait %1", ""),
)
COLUMNS, ROWS = 100, 26
DEADLINE_S = 60
_PORT = "9092"
#: A progress bar: hidden cursor, one line that changes, and the sequence that removes it, unless it is still there.
_PROGRESS = re.compile(r"\x1b\[\?25l.*?(?:\x1b\[\?25h\r\x1b\[1A\x1b\[2K|\Z)", re.DOTALL)
#: The broker's log of a long turn: on a busy machine there are some, and a reader's machine has others.
_LONG_TURN = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ \w+ odradek\.turns: [^\n]*\n")
_STYLE = re.compile(r"\x1b\[[\d;]*m")
PROMPT = "$ "
#: Time to read a command before its output, and the output before the next command.
_COMMAND_PAUSE_S, _OUTPUT_PAUSE_S = 0.7, 1.6


@dataclass
class Recording:
    """`events`: seconds since the start, kind (`o` output, `m` the command of a step) and text. `statuses`: of the steps."""

    events: list[tuple[float, str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    @property
    def commands(self) -> list[str]:
        return [text for _, kind, text in self.events if kind == "m"]

    @property
    def screen(self) -> str:
        """Everything that the terminal showed, with its control sequences."""
        return "".join(text for _, kind, text in self.events if kind == "o")

    @property
    def outputs(self) -> list[str]:
        """The output of each step, with its command and the next prompt, as plain text."""
        found: list[str] = []
        for _, kind, text in self.events:
            if kind == "m":
                found.append("")
            elif found:
                found[-1] += text
        return [_STYLE.sub("", without_progress(one)) for one in found]

    @property
    def shown(self) -> str:
        """The lines that the terminal showed in the end: without progress bars, and without log lines of long turns."""
        return without_progress(self.screen)

    @property
    def cast(self) -> str:
        header = {"version": 2, "width": COLUMNS, "height": ROWS, "env": {"TERM": "xterm-256color"}}
        return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in (header, *self.events))

    @classmethod
    def read(cls, cast: str) -> Recording:
        """Returns the recording of a file, without statuses, which it does not have."""
        return cls([(at, kind, text) for at, kind, text in map(json.loads, cast.splitlines()[1:])])

    def replaced(self, old: str, new: str) -> Recording:
        """Returns the recording with another text of the same length, also where two events share it."""
        assert len(old) == len(new)
        screen, events = self.screen.replace(old, new), []
        for at, kind, text in self.events:
            if kind == "o":
                text, screen = screen[: len(text)], screen[len(text) :]
            events.append((at, kind, text.replace(old, new)))
        return Recording(events, self.statuses)


def without_progress(screen: str) -> str:
    return _LONG_TURN.sub("", _PROGRESS.sub("", screen).replace("\r\n", "\n"))


def recorded(folder: Path) -> Recording:
    """Types the steps into a shell that begins in the empty `folder`."""
    port = _free_port()
    with contextlib.closing(_Shell(folder)) as shell:
        for command, _ in STEPS:
            shell.type(command.replace(_PORT, port))
        return shell.recording.replaced(port, _PORT)


def _free_port() -> str:
    """Other tests and outgoing connections have larger ports."""
    while True:
        port = random.SystemRandom().randrange(9100, 9999)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return str(port)


class _Shell:
    """bash in a pseudo-terminal. It writes the status of each command into a file before it shows its prompt."""

    def __init__(self, folder: Path) -> None:
        self.recording = Recording()
        home = folder.with_name(f"{folder.name}-home")
        home.mkdir()
        self._statuses = home / "statuses"
        self._statuses.touch()
        self._primary, secondary = pty.openpty()
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PS1": PROMPT,
            "PROMPT_COMMAND": f"echo $? >> {self._statuses}",
        }
        bash = ["bash", "--noprofile", "--norc", "--noediting", "-o", "pipefail", "-i"]
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *bash],
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
            cwd=folder,
            env=environment,
        )
        os.close(secondary)
        self._output = select.poll()
        self._output.register(self._primary, select.POLLIN)
        self._began = time.monotonic()
        self._paused_s = 0.0
        self._read_until(lambda: self.recording.screen.endswith(PROMPT))
        self._statuses.write_text("")

    def type(self, command: str) -> None:
        """Types a command, and returns when the shell shows its prompt again."""
        self.recording.events.append((self._now(), "m", command))
        os.write(self._primary, command.encode())
        self._read_until(lambda: self.recording.screen.endswith(command))
        self._paused_s += _COMMAND_PAUSE_S
        os.write(self._primary, b"\n")
        before = len(self.recording.statuses)
        self._read_until(lambda: self._ended() > before and self.recording.screen.endswith(PROMPT))
        self.recording.statuses = [int(line) for line in self._statuses.read_text().splitlines()]
        self._paused_s += _OUTPUT_PAUSE_S

    def _ended(self) -> int:
        return self._statuses.read_text().count("\n")

    def _now(self) -> float:
        return round(time.monotonic() - self._began + self._paused_s, 3)

    def _read_until(self, is_reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not is_reached():
            assert time.monotonic() < deadline, self.recording.screen
            if self._output.poll(100):
                text = os.read(self._primary, 65536).decode()
                self.recording.events.append((self._now(), "o", text))

    def close(self) -> None:
        """Ends the shell, and the broker where a step failed."""
        processes = [*psutil.Process(self._process.pid).children(recursive=True), self._process]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()  # type: ignore[attr-defined]
        self._process.wait(DEADLINE_S)
        os.close(self._primary)
