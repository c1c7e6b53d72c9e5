"""Apache's codecs in one JVM: questions go down a pipe, answers come back (java/CodecOracle.java is the other end)."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path
from typing import Any

from compat_tests.java.fetch import SPECIFICATION, classpath, java

_SOURCE = Path(__file__).resolve().parent / "java" / "CodecOracle.java"
_JVM_FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8")


class Refused(Exception):
    """Apache's code threw; the words are its own."""


class CodecOracle:
    """Ask it to read, write and invent messages and record batches."""

    def __init__(self) -> None:
        command = [java(), *_JVM_FLAGS, "-cp", classpath(SPECIFICATION), str(_SOURCE)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None and process.stdout is not None
        self._process, self._to, self._from = process, process.stdin, process.stdout

    def echo(self, java_class: str, version: int, data: bytes) -> tuple[bytes, Any]:
        """Apache's class reads `data`, all of it: (what it writes of it again, its values as JSON). Raises Refused."""
        return self._message(self._ask(b"E", java_class, version, data=data, blocks=2))

    def random(self, java_class: str, version: int, seed: int) -> tuple[bytes, Any]:
        """A random message of Apache's making: (its bytes, its values as JSON)."""
        return self._message(self._ask(b"R", java_class, version, seed, blocks=2))

    def apis(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._ask(b"A", "", 0)[0])
        return found

    def errors(self) -> list[tuple[int, str, bool]]:
        """Code, name and whether a client may try again, of every error."""
        return [tuple(each) for each in json.loads(self._ask(b"X", "", 0)[0])]

    def batches(self, data: bytes) -> list[dict[str, Any]]:
        """The batches in `data` and their records, as Apache reads them. Raises Refused."""
        found: list[dict[str, Any]] = json.loads(self._ask(b"B", "", 0, data=data)[0])
        return found

    def random_batch(self, codec: str, seed: int) -> tuple[bytes, dict[str, Any]]:
        """One batch of random records, compressed by Apache: (its bytes, what is in it)."""
        data, shown = self._ask(b"C", codec, 0, seed, blocks=2)
        return data, json.loads(shown)[0]

    def close(self) -> None:
        self._to.close()
        self._process.wait(10)
        self._from.close()

    @staticmethod
    def _message(blocks: list[bytes]) -> tuple[bytes, Any]:
        return blocks[0], json.loads(blocks[1])

    def _ask(
        self, question: bytes, name: str, version: int, seed: int = 0, data: bytes = b"", blocks: int = 1
    ) -> list[bytes]:
        text = name.encode()
        head = question + struct.pack(">H", len(text)) + text + struct.pack(">hqi", version, seed, len(data))
        self._to.write(head + data)
        self._to.flush()
        if self._read(1) != b"\0":
            raise Refused(self._block().decode())
        return [self._block() for _ in range(blocks)]

    def _block(self) -> bytes:
        return self._read(struct.unpack(">i", self._read(4))[0])

    def _read(self, count: int) -> bytes:
        data = self._from.read(count)
        assert len(data) == count, "the JVM ended; its words are above"
        return data
