"""Shows the requests to a broker and its responses, captured from the loopback: which side waits for its peer.

    python -m benchmarks.wire PORT SECONDS        (needs CAP_NET_RAW, so most often root)

Prints for each request when it was complete, in ms since the first one, and the time from then to the first byte of its
response; at the end, by API, their number and the percentiles of that time. The times are the kernel's, of a segment's way
through the loopback: they do not include a client's own threads.
"""

from __future__ import annotations

import argparse
import socket
import struct
import sys
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field

from odradek.protocol.apis import APIS

_ETHERNET_BYTES = 14
_IPV4 = 0x0800
_ALL_PROTOCOLS = 3
_TCP = 6
#: Packet type of outgoing frames: the loopback shows each frame twice, outgoing and incoming.
_OUTGOING = 4
_SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 33, 35
_BUFFER_BYTES = 64 * 1024 * 1024
_LONGEST_FRAME = 128 * 1024
_request = struct.Struct(">ihhi").unpack_from
_response = struct.Struct(">ii").unpack_from


@dataclass
class Exchange:
    """A request and the start of its response; times in seconds since 1970."""

    client_port: int
    api: str
    size: int
    came_s: float
    answered_s: float = 0.0

    @property
    def took_ms(self) -> float:
        return (self.answered_s - self.came_s) * 1000


@dataclass
class Stream:
    """One direction of a connection: the bytes of an incomplete frame, and the number of bytes to skip."""

    next_sequence: int = -1
    waiting: bytearray = field(default_factory=bytearray)
    skipped: int = 0


class Wire:
    """The captured connections to a port. Those open before are read from the first captured segment."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: dict[tuple[int, bool], Stream] = defaultdict(Stream)
        self._open: dict[int, deque[tuple[int, Exchange]]] = defaultdict(deque)
        self.exchanges: list[Exchange] = []

    def packet(self, packet: bytes, at_s: float) -> None:
        """Handles an Ethernet frame."""
        if struct.unpack_from(">H", packet, 12)[0] != _IPV4 or packet[23] != _TCP:
            return
        tcp = _ETHERNET_BYTES + (packet[14] & 15) * 4
        source, target, sequence = struct.unpack_from(">HHI", packet, tcp)
        if self._port not in (source, target):
            return
        is_request = target == self._port
        client = source if is_request else target
        end = _ETHERNET_BYTES + struct.unpack_from(">H", packet, 16)[0]
        payload = packet[tcp + (packet[tcp + 12] >> 4) * 4 : end]
        if payload:
            self._segment(self._streams[client, is_request], client, sequence, payload, at_s, is_request=is_request)

    def _segment(
        self, stream: Stream, client: int, sequence: int, payload: bytes, at_s: float, *, is_request: bool
    ) -> None:
        if stream.next_sequence not in (-1, sequence):
            stream.waiting.clear()  # segments were missed: a segment mostly begins with a frame
            stream.skipped = 0
        stream.next_sequence = (sequence + len(payload)) & 0xFFFFFFFF
        skipped = min(stream.skipped, len(payload))
        stream.skipped -= skipped
        stream.waiting += payload[skipped:]
        while len(stream.waiting) >= (12 if is_request else 8):
            if is_request:
                size, key, version, correlation = _request(stream.waiting)
                self._asked(client, key, version, correlation, size, at_s)
            else:
                size, correlation = _response(stream.waiting)
                self._answered(client, correlation, at_s)
            whole = size + 4
            stream.skipped = max(0, whole - len(stream.waiting))
            del stream.waiting[:whole]

    def _asked(self, client: int, key: int, version: int, correlation: int, size: int, at_s: float) -> None:
        api = APIS.get(key)
        if api is not None:
            exchange = Exchange(client, f"{api.name} v{version}", size, at_s)
            self._open[client].append((correlation, exchange))

    def _answered(self, client: int, correlation: int, at_s: float) -> None:
        waiting = self._open[client]
        while waiting:
            asked, exchange = waiting.popleft()
            if asked == correlation:
                exchange.answered_s = at_s
                self.exchanges.append(exchange)
                return


def listen(port: int, seconds: float) -> list[Exchange]:
    """Captures the traffic of `port` for `seconds`. Returns the exchanges in the order of the responses."""
    wire = Wire(port)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as seen:
        seen.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        seen.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        seen.bind(("lo", 0))
        until = time.monotonic() + seconds
        seen.settimeout(0.1)
        while time.monotonic() < until:
            try:
                packet, ancillary, _, address = seen.recvmsg(_LONGEST_FRAME, 64)
            except TimeoutError:
                continue
            if address[2] != _OUTGOING:
                second, nanosecond = struct.unpack("qq", ancillary[0][2])
                wire.packet(packet, second + nanosecond / 1e9)
    return wire.exchanges


def show(exchanges: list[Exchange]) -> None:
    began = min((one.came_s for one in exchanges), default=0.0)
    for one in sorted(exchanges, key=lambda one: one.came_s):
        print(f"{(one.came_s - began) * 1000:10.3f} ms  {one.client_port:5} {one.api:24} {one.took_ms:9.3f} ms")
    by_api: dict[str, list[float]] = defaultdict(list)
    for one in exchanges:
        by_api[one.api].append(one.took_ms)
    for api, times in sorted(by_api.items()):
        times.sort()
        middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
        print(f"{api:24} {len(times):7} p50 {middle:9.3f} p99 {late:9.3f} ms", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("seconds", type=float)
    options = parser.parse_args()
    show(listen(options.port, options.seconds))


if __name__ == "__main__":
    main()
