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
from tests.server.harness.certificates import Authority

HALF_OPEN = 2000
#: The parts of a handshake that attackers send.
PARTS = ("nothing", "half of a hello", "a hello")

#: Opens connections, sends the same bytes on each and keeps them open until its input ends. It is a process, because a
#: thread would compete with the measured client.
_ATTACKER = """
import socket, sys
host, port, count, sent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4])
opened = []
for _ in range(count):
    opened.append(socket.create_connection((host, port), timeout=60))
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
    """A process that opens `HALF_OPEN` connections when it starts."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def opened(self) -> int:
        """Returns the number of opened connections, once all are open."""
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
    """Returns the 99th percentile of each client's latency, in wall-clock time. The clients take turns, request by request,
    so other load of the machine affects all of them alike.
    """
    times: list[list[float]] = [[] for _ in clients]
    for _ in range(requests):
        for client, taken in zip(clients, times, strict=True):
            began = time.perf_counter()
            client.call(ApiVersionsRequest(), 0)
            taken.append(time.perf_counter() - began)
        time.sleep(0.002)  # the interval between requests, not a wait for an event
    return [sorted(taken)[min(requests - 1, requests * 99 // 100)] for taken in times]
