"""Clients that are programs of their own: the Java client and franz-go. A crash of one is a kill -9.

A request is a line of words with tabs between them: `open` with bootstrap, group, transactional id and group protocol;
`send` with topic, partition and value of each record; `begin`, `commit`, `abort`; `join`, `assign`, `seek` and
`commit-offsets` with topic, partition and offset of each key; `subscribe` with topics; `poll` with milliseconds;
`generation`.

A response is `ok`, the keys that moved with commas between them, and the result; or `unknown` and an error.
"""

from __future__ import annotations

import functools
import selectors
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from compat_tests.go_programs import build_go
from compat_tests.java.program import java_command

from .client import OPERATION_S, Client, Got, Identity, Key, Sending, Unknown

_HERE = Path(__file__).resolve().parent
_GO_PROGRAM = _HERE.parents[1] / ".tools" / "histories-franz-go" / "franz"
_JVM = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: A client retries by itself within OPERATION_S; a program that has not responded after this time is killed.
_RESPONSE_S = OPERATION_S + 10


class PipedClient(Client):
    def __init__(self, identity: Identity) -> None:
        super().__init__(identity)
        self._process = subprocess.Popen(
            self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        self._received = b""
        protocol = "consumer" if identity.is_consumer_protocol else "classic"
        try:
            self._ask("open", identity.bootstrap, identity.group, identity.transactional_id, protocol)
        except Unknown:
            self.close()
            raise

    def command(self) -> list[str]:
        raise NotImplementedError

    def _ask(self, *words: object) -> list[str]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(("\t".join(map(str, words)) + "\n").encode())
        except OSError as error:
            raise Unknown(str(error)) from None
        outcome, *result = self._line().split("\t")
        if outcome != "ok":
            raise Unknown(" ".join(result))
        for moved in filter(None, result[0].split(",")):
            topic, _, partition = moved.rpartition("/")
            self.moved.keys.add(Key(topic, int(partition)))
        return result[1:]

    def _line(self) -> str:
        assert self._process.stdout is not None
        deadline = time.monotonic() + _RESPONSE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise Unknown("no response")
                piece = self._process.stdout.read(1 << 16)
                if not piece:
                    raise Unknown("the program ended")
                self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    def send(self, records: Sequence[Sending]) -> list[int | None]:
        words = [word for (topic, partition), value in records for word in (topic, partition, value)]
        return [int(offset) if int(offset) >= 0 else None for offset in self._ask("send", *words)]

    def begin(self) -> None:
        self._ask("begin")

    def join_offsets(self, offsets: Mapping[Key, int]) -> None:
        self._ask("join", *_words(offsets))

    def end(self, *, commits: bool) -> None:
        self._ask("commit" if commits else "abort")

    def assign(self, offsets: Mapping[Key, int]) -> None:
        self._ask("assign", *_words(offsets))

    def subscribe(self, topics: Sequence[str]) -> None:
        self._ask("subscribe", *topics)

    def seek(self, offsets: Mapping[Key, int]) -> None:
        self._ask("seek", *_words(offsets))

    def poll(self, timeout_s: float) -> list[Got]:
        words = iter(self._ask("poll", int(timeout_s * 1000)))
        return [
            Got(Key(topic, int(partition)), int(offset), value)
            for topic, partition, offset, value in zip(words, words, words, words, strict=True)
        ]

    def commit(self, offsets: Mapping[Key, int]) -> None:
        self._ask("commit-offsets", *_words(offsets))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class JavaClient(PipedClient):
    name = "java"

    def command(self) -> list[str]:
        return java_command(_HERE / "HistoryClient.java", jvm=_JVM)

    def generation(self) -> int:
        return int(self._ask("generation")[0])


class FranzGoClient(PipedClient):
    name = "franz-go"

    def command(self) -> list[str]:
        return [str(_built())]


@functools.cache
def _built() -> Path:
    build_go(_HERE / "franz_go", _GO_PROGRAM)
    return _GO_PROGRAM


def has_go() -> bool:
    return shutil.which("go") is not None


def _words(offsets: Mapping[Key, int]) -> list[object]:
    return [word for (topic, partition), offset in offsets.items() for word in (topic, partition, offset)]
