"""Programs of the documentation that serve until SIGTERM."""

from __future__ import annotations

import signal
import subprocess
from typing import Any

from kafka import KafkaProducer

from tests.docs.shells import DEADLINE_S


def serves_until_sigterm(
    command: list[str], port: int, process: type[subprocess.Popen[str]] = subprocess.Popen, **how: Any
) -> int:
    """Runs a broker's command until a client has written a record to its port. Returns the status after SIGTERM."""
    with process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how) as broker:
        try:
            assert broker.stdout is not None and broker.stderr is not None
            line = broker.stdout.readline()
            assert "serving" in line, line + broker.stderr.read()
            producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}")
            assert producer.send("t", b"x").get(timeout=DEADLINE_S).offset == 0
            producer.close()
            broker.send_signal(signal.SIGTERM)
            return broker.wait(DEADLINE_S)
        finally:
            broker.kill()
