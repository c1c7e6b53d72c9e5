"""A proxy that makes faults between a client and any broker: network faults, and error codes in a broker's responses.

The broker advertises the proxy's address, so clients never learn its own; or the proxies of a cluster replace the brokers'
addresses in responses (`routes`). Other frames pass unchanged unless a fault strikes them. To make a produce fail without
effect, the proxy damages its checksum. The broker writes nothing and answers CORRUPT_MESSAGE, and the proxy replaces that
with the intended error.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

from odradek.protocol.apis import APIS
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader, ResponseHeader

_KEYS = {api.name: key for key, api in APIS.items()}
#: The position of the checksum in a record batch.
_CRC_AT = 17
#: Fields of a partition's result that are -1 if it has an error.
_UNKNOWN = (
    "base_offset",
    "log_append_time_ms",
    "log_start_offset",
    "high_watermark",
    "last_stable_offset",
    "node_id",
    "port",
)


@dataclass
class ProxyFault:
    """A fault. `refuse` and `answer_error` have an `error`, `delay` and `throttle` have `seconds`. `first`: an effect comes
    before the request. `naming`: only requests with these bytes match. `after`: only requests after the response to one of
    that API match. It strikes `times` at most. `count`: the number of requests that it struck.
    """

    kind: str
    api: str = "Produce"
    error: ErrorCode = ErrorCode.NONE
    seconds: float = 0.0
    times: int = 1
    naming: bytes = b""
    after: str = ""
    count: int = 0


KINDS = ("first", "refuse", "answer_error", "drop", "drop_answer", "cut_answer", "delay", "throttle")


class _Asked(NamedTuple):
    key: int
    version: int
    fault: ProxyFault | None


#: The APIs whose responses contain addresses of brokers, and the lists that contain them.
_ROUTED = {_KEYS[name] for name in ("Produce", "Fetch", "Metadata", "FindCoordinator", "DescribeCluster")}
_ADDRESSED = ("brokers", "coordinators", "node_endpoints")


class Strikes:
    """The fault and the counted requests of a proxy, or of all proxies of a cluster."""

    def __init__(self) -> None:
        self._fault: ProxyFault | None = None
        self.effect: Callable[[], None] | None = None
        self._asked: Counter[tuple[str, str]] = Counter()
        #: The APIs of the responses that clients have got.
        self._answered: set[str] = set()
        self._lock = threading.Lock()

    def strike(self, fault: ProxyFault, effect: Callable[[], None] | None = None) -> ProxyFault:
        """Applies the fault to the next requests of its API. Calls `effect` for each dropped request or response, and
        for `first`.
        """
        assert fault.kind in KINDS, fault.kind
        self._fault, self.effect = fault, effect
        return fault

    def end_fault(self) -> None:
        with self._lock:
            self._fault = None

    def clear(self) -> None:
        """Ends the fault and forgets the requests."""
        with self._lock:
            self._fault = None
            self._asked.clear()
            self._answered.clear()

    def asked(self, client_id: str, api: str | None = None) -> int:
        """Returns how many requests of an API, or of all, came from a client."""
        with self._lock:
            meant = [one for one in self._asked if one[0].startswith(client_id) and api in (None, one[1])]
            return sum(self._asked[one] for one in meant)

    def meet(self, key: int, client_id: str, frame: bytes) -> ProxyFault | None:
        with self._lock:
            self._asked[client_id, APIS[key].name] += 1
            fault = self._fault
            if fault is None or _KEYS[fault.api] != key or fault.count >= fault.times or fault.naming not in frame:
                return None
            if fault.after and fault.after not in self._answered:
                return None
            fault.count += 1
            return fault

    def note_response(self, key: int) -> None:
        with self._lock:
            self._answered.add(APIS[key].name)


class FaultProxy(Strikes):
    """Listens on a free port of 127.0.0.1. `target`, "host:port", is the broker: set it before a client connects.

    `shared`: the strikes of several proxies. `routes`: the proxies' addresses by those of their brokers.
    """

    def __init__(self, shared: Strikes | None = None, routes: dict[str, str] | None = None) -> None:
        super().__init__()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.target = ""
        self.strikes = shared or self
        self.routes = {} if routes is None else routes

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                host, _, port = self.target.rpartition(":")
                try:
                    broker = socket.create_connection((host, int(port)))
                except OSError:
                    client.close()
                    continue
                passage = _Passage(self, client, broker)
                for run in (passage.requests, passage.responses):
                    threading.Thread(target=run, daemon=True).start()

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # close() alone leaves the socket open while a thread is in accept()
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class _Passage:
    """A client's connection and the one to the broker, with a thread for each direction. They end together."""

    def __init__(self, proxy: FaultProxy, client: socket.socket, broker: socket.socket) -> None:
        self.proxy, self.client, self.broker = proxy, client, broker
        self._pending: dict[int, _Asked] = {}
        #: The time until which a throttled client's requests wait.
        self._muted_until = 0.0
        for one in (client, broker):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def requests(self) -> None:
        with self._ending():
            for frame in _frames(self.client):
                key, version, number, length = struct.unpack_from(">hhih", frame)
                time.sleep(max(0.0, self._muted_until - time.monotonic()))
                fault = self.proxy.strikes.meet(key, frame[10 : 10 + max(0, length)].decode(), frame)
                if fault is not None and fault.kind in ("drop", "first"):
                    if self.proxy.strikes.effect is not None:
                        self.proxy.strikes.effect()
                    if fault.kind == "drop":
                        return
                self._pending[number] = _Asked(key, version, fault)
                if fault is not None and fault.kind == "refuse" and fault.api == "Produce":
                    frame = _damaged(frame, version)
                self.broker.sendall(struct.pack(">i", len(frame)) + frame)

    def responses(self) -> None:
        with self._ending():
            for frame in _frames(self.broker):
                (number,) = struct.unpack_from(">i", frame)
                key, version, fault = self._pending.pop(number)
                if self.proxy.routes and key in _ROUTED:
                    frame = _changed(frame, key, version, lambda body: set_addresses(body, self.proxy.routes))
                if fault is None:
                    self.client.sendall(struct.pack(">i", len(frame)) + frame)
                elif fault.kind == "drop_answer":
                    if self.proxy.strikes.effect is not None:
                        self.proxy.strikes.effect()
                    return
                elif not self._respond(fault, key, version, frame):
                    return
                self.proxy.strikes.note_response(key)

    def _respond(self, fault: ProxyFault, key: int, version: int, frame: bytes) -> bool:
        """Sends the response with its fault. Returns whether the connection stays open."""
        if fault.kind == "delay":
            time.sleep(fault.seconds)
        elif fault.kind == "throttle":
            frame = _changed(
                frame, key, version, lambda body: setattr(body, "throttle_time_ms", int(fault.seconds * 1000))
            )
            self._muted_until = time.monotonic() + fault.seconds
        elif fault.kind in ("refuse", "answer_error"):
            frame = _changed(frame, key, version, lambda body: set_errors(body, version, fault.error))
        data = struct.pack(">i", len(frame)) + frame
        if fault.kind == "cut_answer":
            self.client.sendall(data[:-1])
            return False
        self.client.sendall(data)
        return True

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            with contextlib.suppress(OSError):
                yield
        finally:
            for one in (self.client, self.broker):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


def _frames(stream: socket.socket) -> Iterator[bytes]:
    with stream.makefile("rb") as reader:
        while len(prefix := reader.read(4)) == 4:
            (length,) = struct.unpack(">i", prefix)
            frame = reader.read(length)
            if len(frame) < length:
                return
            yield frame


def _damaged(frame: bytes, version: int) -> bytes:
    """Returns a Produce request with wrong checksums in its batches."""
    api = APIS[_KEYS["Produce"]]
    _, body_at = decode(RequestHeader, api.request_header_version(version), frame)
    request: Any = decode(api.request, version, frame, body_at)[0]
    for topic in request.topic_data:
        for part in topic.partition_data:
            sound = bytes(part.records)
            wrong = bytes(byte ^ 0xFF for byte in sound[_CRC_AT : _CRC_AT + 4])
            frame = frame.replace(sound, sound[:_CRC_AT] + wrong + sound[_CRC_AT + 4 :])
    return frame


def _changed(frame: bytes, key: int, version: int, change: Any) -> bytes:
    api = APIS[key]
    header, body_at = decode(ResponseHeader, api.response_header_version(version), frame)
    body = decode(api.response, version, frame, body_at)[0]
    change(body)
    return encode(header, api.response_header_version(version)) + encode(body, version)


def set_addresses(response: Any, routes: dict[str, str]) -> None:
    """Replaces the addresses of brokers by those of their proxies."""
    listed = [one for name in _ADDRESSED for one in getattr(response, name, None) or ()]
    for one in (response, *listed):
        route = routes.get(f"{getattr(one, 'host', None)}:{getattr(one, 'port', None)}")
        if route is not None:
            one.host, _, port = route.rpartition(":")
            one.port = int(port)


def set_errors(response: Any, version: int, error: ErrorCode) -> None:
    """Sets the errors of partitions (Produce, Fetch), topics (Metadata), coordinators, or of the response (Heartbeat)."""
    results = [
        part
        for topic in getattr(response, "responses", ())
        for part in getattr(topic, "partition_responses", None) or getattr(topic, "partitions", ())
    ]
    results += getattr(response, "topics", None) or getattr(response, "coordinators", None) or ()
    for result in results or [response]:
        names = {field.name for field in result.SCHEMA.fields if version in field.versions}
        result.error_code = int(error)
        for name in names.intersection(_UNKNOWN):
            setattr(result, name, -1)
        if "partitions" in names:
            result.partitions = []
        if "records" in names:
            result.records = b""
        if "host" in names:
            result.host = ""
