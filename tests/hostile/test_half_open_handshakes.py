"""Two thousand TLS handshakes that do not go on: a client that is served keeps its latency, and memory stays bounded."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from odradek.protocol.messages.api_versions import ApiVersionsRequest

from compat_tests.broker_process import free_port
from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient
from tests.server.certificates import Authority, pem_properties

HALF_OPEN = 2000
#: Requests whose latency is measured, before and during the attack.
REQUESTS = 600
#: What may stand before a request besides its own work: an accept and the beginning of a handshake, a millisecond. The
#: kernel counts the time of a process that runs in ticks of 4 ms.
MOST_WORK_S = 0.008
#: 1,000 handshakes in progress take 20 MB.
MOST_GROWTH_BYTES = 80 << 20


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    directory = tmp_path_factory.mktemp("tls")
    properties = {
        "listeners": f"SSL://127.0.0.1:{free_port()}",
        "security.inter.broker.protocol": "SSL",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        **pem_properties(authority.issue(name="node"), authority, directory),
    }
    with OdradekProcess(directory / "broker", properties) as running:
        yield running


def context_of(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.pem_text)


def client_hello(authority: Authority) -> bytes:
    outgoing = ssl.MemoryBIO()
    client = context_of(authority).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def worked_s(pid: int) -> float:
    """The time that the broker's event loop has had a processor (man 5 proc, schedstat)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def p99_work_s(client: WireClient, pid: int) -> float:
    """Returns the broker's time between a request and its answer: other processes on the machine do not count."""
    works = []
    for _ in range(REQUESTS):
        before_s = worked_s(pid)
        client.call(ApiVersionsRequest(), 0)
        works.append(worked_s(pid) - before_s)
        time.sleep(0.002)  # the pace of the requests: nothing is waited for
    return sorted(works)[REQUESTS * 99 // 100]


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


@contextlib.contextmanager
def attack(host: str, port: int, sent: bytes) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", _ATTACKER, host, str(port), str(HALF_OPEN), sent.hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as attacker:
        yield attacker
        assert attacker.stdin is not None
        attacker.stdin.close()


@pytest.mark.parametrize("part", ["nothing", "half of a hello", "a hello"])
def test_half_open_handshakes_leave_a_served_client_its_latency(
    part: str, broker: OdradekProcess, authority: Authority
) -> None:
    hello = client_hello(authority)
    sent = {"nothing": b"", "half of a hello": hello[: len(hello) // 2], "a hello": hello}[part]
    process = psutil.Process(broker.pid)
    with WireClient(f"{broker.host}:{broker.port}", tls=context_of(authority)) as client:
        before_s = p99_work_s(client, broker.pid)
        memory = process.memory_info().rss
        with attack(broker.host, broker.port, sent) as attacker:
            during_s = p99_work_s(client, broker.pid)
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == b"%d\n" % HALF_OPEN
            grown = process.memory_info().rss - memory
    assert grown < MOST_GROWTH_BYTES
    print(f"p99 of the work before an answer: {before_s * 1000:.2f} ms, and {during_s * 1000:.2f} ms during the attack")
    assert during_s < max(2 * before_s, MOST_WORK_S)
    with WireClient(f"{broker.host}:{broker.port}", tls=context_of(authority)) as client:
        assert client.call(ApiVersionsRequest(), 0).error_code == 0
