"""Half-open TLS handshakes against a broker, and the latency of a client beside them."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from odradek.protocol.messages.api_versions import ApiVersionsRequest

from compat_tests.wire import WireClient
from tests.server.certificates import Authority

HALF_OPEN = 2000
#: The parts of a handshake that peers send.
PARTS = ("nothing", "half of a hello", "a hello")

#: Opens connections, sends the same bytes on each and keeps them open until its input ends. A process of its own: a thread
#: would take turns with the client that is measured.
_ATTACKER = """
import socket, sys
host, port, count, sent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4])
opened = []
for _ in range(count):
    opened.append(socket.create_connection((host, port), timeout=20))
    try:
        opened[-1].sendall(sent)
    except OSError:
        pass
print(len(opened), flush=True)
sys.stdin.read()
"""


def context_of(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.pem_text)


def client_hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def sent_by(part: str, context: ssl.SSLContext) -> bytes:
    hello = client_hello(context)
    return {"nothing": b"", "half of a hello": hello[: len(hello) // 2], "a hello": hello}[part]


class Attacker:
    """A process that opens `HALF_OPEN` connections, from its start on."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def opened(self) -> int:
        """Returns how many connections it has opened, when these are all."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextlib.contextmanager
def attack(host: str, port: int, sent: bytes) -> Iterator[Attacker]:
    command = [sys.executable, "-c", _ATTACKER, host, str(port), str(HALF_OPEN), sent.hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Attacker(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def p99s_s(clients: Sequence[WireClient], requests: int) -> list[float]:
    """Returns the latency of each client that all but the longest hundredth of its requests stay below, by the clock. They
    take turns, request by request: what else the machine does then meets all of them.
    """
    times: list[list[float]] = [[] for _ in clients]
    for _ in range(requests):
        for client, taken in zip(clients, times, strict=True):
            began = time.perf_counter()
            client.call(ApiVersionsRequest(), 0)
            taken.append(time.perf_counter() - began)
        time.sleep(0.002)  # the pace of the requests: nothing is waited for
    return [sorted(taken)[min(requests - 1, requests * 99 // 100)] for taken in times]
