"""A gate between a client and a broker: frames pass unchanged, and chosen frames wait until they are released.

A request to hold is found by its API, or by a record in it, and its response by the correlation id. The gate writes down the
broker's response to each batch.
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
from odradek.protocol.headers import RequestHeader, ResponseHeader
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import decode_batch

_PRODUCE = 0


class Answered(NamedTuple):
    """A batch and its response; -1 for an offset that the response lacks."""

    values: tuple[bytes, ...]
    producer_epoch: int
    base_sequence: int
    error_code: int
    base_offset: int


@dataclass
class Hold:
    """A frame to hold. `came`: it is at the gate. `go`: it may pass, or is lost with its connection."""

    is_response: bool
    key: int = _PRODUCE
    #: A record in the request; None for any request of the API.
    value: bytes | None = None
    is_lost: bool = False
    frame: bytes = b""
    came: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def lose(self) -> None:
        self.is_lost = True
        self.go.set()


class Gate:
    """A context; connections to `port` lead to the broker at `target_port`."""

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
        """Holds the next request with this record, and all frames behind it on its connection."""
        return self.hold(Hold(is_response=False, value=value))

    def hold_response(self, value: bytes) -> Hold:
        return self.hold(Hold(is_response=True, value=value))

    def hold(self, hold: Hold) -> Hold:
        """Holds the next matching frame, and the frames behind it."""
        self._holds.append(hold)
        return hold

    def _wait(self, asked: _Asked, frame: bytes, *, is_response: bool) -> None:
        for hold in self._holds:
            is_meant = hold.is_response == is_response and hold.key == asked.key
            if is_meant and (hold.value is None or hold.value in asked.values) and not hold.came.is_set():
                hold.frame = frame
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
                for run in (passage.requests, passage.responses):
                    threading.Thread(target=run, daemon=True).start()


class _Asked(NamedTuple):
    key: int
    version: int
    #: Values, producer epoch and base sequence of each batch of a Produce request.
    batches: list[tuple[Any, ...]]

    @property
    def values(self) -> tuple[bytes, ...]:
        return tuple(value for values, *_ in self.batches for value in values)


class _Passage:
    """A connection of the client and its connection to the broker. The thread of either direction closes both."""

    def __init__(self, gate: Gate, client: socket.socket, broker: socket.socket) -> None:
        self.gate, self.client, self.broker = gate, client, broker
        self._asked: dict[int, _Asked] = {}

    def requests(self) -> None:
        with self._ending():
            for frame in _frames(self.client):
                key, version, number = struct.unpack_from(">hhi", frame)
                asked = _Asked(key, version, _batches(frame, version) if key == _PRODUCE else [])
                self._asked[number] = asked
                self.gate._wait(asked, frame, is_response=False)
                self.broker.sendall(struct.pack(">i", len(frame)) + frame)

    def responses(self) -> None:
        with self._ending():
            for frame in _frames(self.broker):
                (number,) = struct.unpack_from(">i", frame)
                asked = self._asked.pop(number)
                if asked.key == _PRODUCE:
                    self._note(frame, asked)
                self.gate._wait(asked, frame, is_response=True)
                self.client.sendall(struct.pack(">i", len(frame)) + frame)

    def _note(self, frame: bytes, asked: _Asked) -> None:
        response = decoded_response(frame, _PRODUCE, asked.version)
        reported = [part for topic in response.responses for part in topic.partition_responses]
        for batch, part in zip(asked.batches, reported, strict=True):
            self.gate.answered.append(Answered(*batch, part.error_code, part.base_offset))  # type: ignore[call-arg]

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


def decoded_response(frame: bytes, key: int, version: int) -> Any:
    api = APIS[key]
    _, body_at = decode(ResponseHeader, api.response_header_version(version), frame)
    return decode(api.response, version, frame, body_at)[0]


def _batches(frame: bytes, version: int) -> list[tuple[Any, ...]]:
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
