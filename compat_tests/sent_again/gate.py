"""What a client's connections to one broker lead through: frames pass as they are, some wait at the gate until they may.

A request to produce that is to wait is known by the record in it, and the answer to it by its number. Of each batch it is
written down what the broker said of it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

from odradek.protocol.apis import APIS
from odradek.protocol.codec import decode
from odradek.protocol.internal.headers import RequestHeader, ResponseHeader
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import decode_batch

_PRODUCE = 0


class Answered(NamedTuple):
    """One batch, and what was said of it; -1 for an offset where there is none."""

    values: tuple[bytes, ...]
    producer_epoch: int
    base_sequence: int
    error_code: int
    base_offset: int


@dataclass
class Hold:
    """A frame that waits: `came` when it is at the gate, `go` when it may pass, or is lost with its connection."""

    value: bytes
    is_answer: bool
    is_lost: bool = False
    came: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def lose(self) -> None:
        self.is_lost = True
        self.go.set()


class Gate:
    """Use as a context; connections to `port` lead to the broker at `target_port`."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.answered: list[Answered] = []
        self._holds: list[Hold] = []
        self._open: list[socket.socket] = []

    def __enter__(self) -> Gate:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hold in self._holds:
            hold.go.set()
        # A thread that waits in accept() holds on to a socket that is only closed.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        for one in (self._listening, *self._open):
            one.close()

    def hold_request(self, value: bytes) -> Hold:
        """The next request with this record in it, and whatever comes behind it on its connection, will wait."""
        return self._hold(Hold(value, is_answer=False))

    def hold_answer(self, value: bytes) -> Hold:
        return self._hold(Hold(value, is_answer=True))

    def _hold(self, hold: Hold) -> Hold:
        self._holds.append(hold)
        return hold

    def _wait(self, values: tuple[bytes, ...], *, is_answer: bool) -> None:
        for hold in self._holds:
            if hold.is_answer == is_answer and hold.value in values and not hold.came.is_set():
                hold.came.set()
                hold.go.wait()
                if hold.is_lost:
                    raise ConnectionAbortedError

    # ---- frames

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self._target_port))
                except OSError:
                    client.close()
                    continue
                self._open += (client, broker)
                passage = _Passage(self, client, broker)
                for run in (passage.requests, passage.answers):
                    threading.Thread(target=run, daemon=True).start()


class _Passage:
    """One connection of the client and the one that it leads to. Each direction has a thread, and ends both."""

    def __init__(self, gate: Gate, client: socket.socket, broker: socket.socket) -> None:
        self.gate, self.client, self.broker = gate, client, broker
        self._asked: dict[int, tuple[int, list[tuple[Any, ...]]]] = {}

    def requests(self) -> None:
        with self._ending():
            for frame in _frames(self.client):
                key, version, number = struct.unpack_from(">hhi", frame)
                if key == _PRODUCE:
                    batches = _batches(frame, version)
                    self._asked[number] = (version, batches)
                    self.gate._wait(_values(batches), is_answer=False)
                self.broker.sendall(struct.pack(">i", len(frame)) + frame)

    def answers(self) -> None:
        with self._ending():
            for frame in _frames(self.broker):
                (number,) = struct.unpack_from(">i", frame)
                if number in self._asked:
                    version, batches = self._asked.pop(number)
                    self._note(frame, version, batches)
                    self.gate._wait(_values(batches), is_answer=True)
                self.client.sendall(struct.pack(">i", len(frame)) + frame)

    def _note(self, frame: bytes, version: int, batches: list[tuple[Any, ...]]) -> None:
        api = APIS[_PRODUCE]
        _, body_at = decode(ResponseHeader, api.response_header_version(version), frame)
        answer: Any = decode(api.response, version, frame, body_at)[0]
        told = [part for topic in answer.responses for part in topic.partition_responses]
        for batch, part in zip(batches, told, strict=True):
            self.gate.answered.append(Answered(*batch, part.error_code, part.base_offset))

    @contextlib.contextmanager
    def _ending(self) -> Any:
        try:
            with contextlib.suppress(OSError):
                yield
        finally:
            for one in (self.client, self.broker):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


def _frames(stream: socket.socket) -> Any:
    with stream.makefile("rb") as reader:
        while len(prefix := reader.read(4)) == 4:
            (length,) = struct.unpack(">i", prefix)
            frame = reader.read(length)
            if len(frame) < length:
                return
            yield frame


def _batches(frame: bytes, version: int) -> list[tuple[Any, ...]]:
    """Values, epoch and first sequence number of each."""
    api = APIS[_PRODUCE]
    _, body_at = decode(RequestHeader, api.request_header_version(version), frame)
    request: Any = decode(api.request, version, frame, body_at)[0]
    found = []
    for topic in request.topic_data:
        for part in topic.partition_data:
            for position, header in iter_headers(part.records):
                values = tuple(record.value for record in decode_batch(part.records, position, header))
                found.append((values, header.producer_epoch, header.base_sequence))
    return found


def _values(batches: list[tuple[Any, ...]]) -> tuple[bytes, ...]:
    return tuple(value for values, *_ in batches for value in values)
