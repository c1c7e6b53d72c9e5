"""Apache's Java client among the clients of the scenario: OrderClient.java as a process, with a sender and a group."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from pathlib import Path

from compat_tests.java.program import JVM_FLAGS, java_command

from .orders import CUSTOMERS, DELIVERY_MS, PAUSE_S, TOPIC, Sender
from .readers import Reader

_SOURCE = Path(__file__).resolve().parent / "OrderClient.java"
_END_S = DELIVERY_MS / 1000 + 30


class JavaReader(Reader):
    """The records that the Java process has read. JavaSender owns the process and fills `seen`."""

    def start(self) -> None:
        """Does nothing: the process starts with the sender."""

    def end(self) -> None:
        """Does nothing: the reader ends with the sender's process."""


class JavaSender(Sender):
    """Orders sent by the Java process. `end` ends the sending; `close` then ends the process with its reader."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        super().__init__("java", bootstrap)
        self.reader = JavaReader("java", bootstrap)
        self._is_done, self._is_closed = threading.Event(), threading.Event()
        numbers = (str(CUSTOMERS), str(int(PAUSE_S * 1000)), str(DELIVERY_MS))
        words = (bootstrap, TOPIC, self.reader.group, *numbers)
        command = java_command(_SOURCE, *words, jvm=(*JVM_FLAGS, "-Xmx128m"))
        with (directory / "java-client.log").open("a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def send_all(self) -> None:
        """Collects the lines of the process until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, what = line.rstrip("\n").partition(" ")
            match word:
                case "seen":
                    self.reader.seen[what] += 1
                case "sent":
                    self.sent = int(what) + 1
                case "acknowledged":
                    self.acknowledged.append(what)
                case "done":
                    self._is_done.set()
                case "closed":
                    self._is_closed.set()
                case _:
                    self.failed.append(line.rstrip())
        if not self._is_closed.is_set():
            self.failed.append("the process has ended")
        self._is_done.set()

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("enough\n")
            self._process.stdin.flush()
        assert self._is_done.wait(_END_S), "the Java client does not end"

    def close(self) -> None:
        """Ends the process with its reader; kills it if it does not end in time."""
        assert self._process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.wait(_END_S)
        finally:
            self._process.kill()
            self._process.wait()
