"""The rows of transactions, of offsets, and of groups that lose a member."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .loads import Load
from .reporting.kinds import CPU_PER_GB, CPU_PER_REQUEST, LATENCY_P50, LATENCY_P99, RATE, THROUGHPUT, Row

_PROGRAM = Path(__file__).with_name("transaction_load.py")
_DEADLINE_S = 600
MEMBERS, PARTITIONS = 50, 200


def load(bootstrap: str, topic: str, what: str, records: int, size: int, **settings: str) -> Load:
    """Runs transaction_load.py in its own process."""
    words = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
    command = [sys.executable, str(_PROGRAM), what, bootstrap, topic, str(records), str(size), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    if done.returncode:
        raise RuntimeError(f"{what} failed:\n{done.stderr[-2000:]}")
    response = json.loads(done.stdout)
    return Load(response["records"], size, response["seconds"], response.get("latency_ms", {}))


def transaction_rows(scale: float) -> Iterator[Row]:
    for per, records in ((100, int(100_000 * scale)), (10_000, int(1_000_000 * scale))):
        yield _transact(per, records)
    yield _commit(int(3_000 * scale))
    yield _offsets(int(50_000 * scale))
    for protocol in ("classic", "consumer"):
        for how in ("killed", "leaves"):
            yield _death(how, protocol)


def _transact(per: int, records: int) -> Row:
    def run(bootstrap: str, topic: str) -> Load:
        return load(bootstrap, topic, "transact", max(records, 2 * per), 100, per=str(per))

    return Row(f"transactions of {per:,} x 100 B", "librdkafka", run, (THROUGHPUT, CPU_PER_GB))


def _commit(records: int) -> Row:
    def run(bootstrap: str, topic: str) -> Load:
        return load(bootstrap, topic, "transact", records, 100, per="1")

    return Row("commit of a transaction", "librdkafka", run, (LATENCY_P50, LATENCY_P99, CPU_PER_REQUEST))


def _offsets(records: int) -> Row:
    def run(bootstrap: str, topic: str) -> Load:
        return load(bootstrap, topic, "offsets", records, 0)

    return Row("offset commits", "librdkafka", run, (RATE, CPU_PER_REQUEST))


def _death(how: str, protocol: str) -> Row:
    def run(bootstrap: str, topic: str) -> Load:
        settings = {"how": how, "group.protocol": protocol, "per": str(MEMBERS)}
        return load(bootstrap, topic, "death", PARTITIONS, 0, **settings)

    name = f"one of {MEMBERS} members {how}, {PARTITIONS} partitions, {protocol}"
    return Row(name, "librdkafka", run, (LATENCY_P50, CPU_PER_REQUEST))
