"""A program around an embedded broker that opens files until the process has no descriptor left."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from pathlib import Path

import odradek

from compat_tests.wire import WireClient
from tests.hostile.requests import create, produce

_LEFT = 40
_ROLLING_BYTES = 600_000


def main() -> None:
    with (
        odradek.Broker(config={"log.segment.bytes": "1048576"}) as broker,
        WireClient(broker.bootstrap_servers) as client,
    ):
        create(client, "before", partitions=10)
        produce(client, "before", b"v")
        open_now = sum(1 for _ in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + _LEFT, open_now + _LEFT))
        leaked = []
        with contextlib.suppress(OSError):
            while True:
                leaked.append(os.open(os.devnull, os.O_RDONLY))
        host, _, port = broker.bootstrap_servers.rpartition(":")
        os.close(leaked.pop())
        waiting = socket.create_connection((host, int(port)))  # the broker has no descriptor left to accept it
        for _ in range(4):
            produce(client, "before", bytes(_ROLLING_BYTES))
        create(client, "after", partitions=2)
        produce(client, "after", b"v")
        for fd in leaked:
            os.close(fd)
        waiting.close()
        with WireClient(broker.bootstrap_servers) as later:
            produce(later, "after", b"w")
    print("served")


if __name__ == "__main__":
    main()
