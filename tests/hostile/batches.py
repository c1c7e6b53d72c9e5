"""Mutates batches by seed and sends them to a broker: `python -m tests.hostile.batches --seed 1 --minutes 10`.

The program changes good batches of every codec at random and gives them a correct CRC. The consumers of batch_readers.py,
DumpLogSegments and the cleaner must read every batch that the broker accepts, to the end. A run prints its seed; the same
seed sends the same batches.
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import HEADER_BYTES, read_header, sealed
from odradek.protocol.records.compression import Compression, compress
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.segments.batches import batches_of
from odradek.storage.segments.poison import fault_of

from compat_tests.java.tool import ToolHost
from compat_tests.odradek_process import OdradekProcess
from tests.hostile.batch_readers import LAST, PYTHON_READERS, Stopped, dump, read_by_console_consumer
from tests.hostile.batch_sender import TOPICS, BatchSender
from tests.hostile.poisoned_batches import KINDS, ODD, batch, record

#: Batches of one round. After a round all readers read the accepted batches.
BATCHES_PER_ROUND = 600
_FIELDS = {
    "last_offset_delta": (0, 1, -1, 5, 1 << 20, (1 << 31) - 1),
    "base_timestamp": (0, -1, 1 << 40, 1 << 62, -(1 << 62)),
    "max_timestamp": (0, -1, -(1 << 63), (1 << 63) - 1),
    "record_count": (0, 1, 2, -1, 1 << 20, (1 << 31) - 1),
    "attributes": (1, 2, 3, 4, 5, 8, 0x40, 0x80, -1),
}


def mutated(rng: random.Random, now_ms: int) -> bytes:
    """Returns a good batch, or a good batch with some bytes or fields changed; its CRC is correct."""
    codec = rng.choice(list(Compression))
    if rng.random() < 0.2:
        return rng.choice(list({**KINDS, **ODD}.values()))(codec, now_ms)
    whole = encode_batch(_records(rng, now_ms))
    header, payload = read_header(whole), bytearray(whole[HEADER_BYTES:])
    if rng.random() < 0.7:
        for _ in range(rng.choice((1, 1, 2, 5))):
            mutate(payload, rng)
    packed = bytearray(compress(codec, bytes(payload)) if codec else payload)
    if codec and rng.random() < 0.2:
        mutate(packed, rng)
    header = header._replace(attributes=codec, length=HEADER_BYTES - 12 + len(packed))
    if rng.random() < 0.2:
        name = rng.choice(list(_FIELDS))
        header = header._replace(**{name: rng.choice(_FIELDS[name])})
    return sealed(header, bytes(packed))


def _records(rng: random.Random, now_ms: int) -> list[Record]:
    def data() -> bytes | None:
        return None if rng.random() < 0.1 else rng.randbytes(rng.choice((0, 1, 10, 70, 300)))

    headers = [(rng.choice(("a", "", "\u00e4\u20ac")), data()) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    count = rng.choice((1, 2, 3, 10, 100))
    return [Record(n, now_ms + rng.randrange(-5, 5), data() or b"k", data(), headers) for n in range(count)]


def mutate(data: bytearray, rng: random.Random) -> None:
    """Sets, flips, inserts or removes some bytes."""
    at, kind = rng.randrange(len(data) + 1), rng.randrange(4)
    if kind == 0:
        del data[at : at + rng.randrange(1, 12)]
    elif kind == 1:
        data[at:at] = rng.randbytes(rng.randrange(1, 12))
    elif at < len(data):
        data[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)) if kind == 2 else data[at] ^ 1 << rng.randrange(8)


@dataclass
class Report:
    """The result of some rounds of batches."""

    responses: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def run_round(
    broker: OdradekProcess,
    tools: ToolHost | None,
    rng: random.Random,
    number: int,
    batches: int,
    kinds: Iterable[str] = tuple(TOPICS),
) -> Report:
    """Sends `batches` to new topics of these kinds and reads them. `tools`: a JVM for Apache's tools, or none."""
    report = Report()
    topics = {f"{kind}-{number}": TOPICS[kind] for kind in kinds}
    with BatchSender(broker.bootstrap) as sender:
        sender.create_topics(topics)
        for _ in range(batches):
            now_ms = time.time_ns() // 1_000_000
            topic, made = rng.choice(list(topics)), mutated(rng, now_ms)
            report.responses[sender.error(topic, made).name] += 1
        for topic in topics:
            last = batch(record(value=LAST), Compression.NONE, time.time_ns() // 1_000_000, count=1)
            assert sender.error(topic, last) is ErrorCode.NONE
    for topic in topics:
        report.failures += read_by_all(broker, tools, topic)
    return report


def read_by_all(broker: OdradekProcess, tools: ToolHost | None, topic: str) -> list[str]:
    """Returns the complaints of the readers."""
    failures: list[str] = []
    counts = set()
    for read in PYTHON_READERS:
        try:
            counts.add(read(broker.bootstrap, topic))
        except Stopped as stopped:
            failures.append(str(stopped))
    if len(counts) > 1:
        failures.append(f"consumers differ about the records of {topic}: {counts}")
    files = sorted((broker.data_dir / f"{topic}-0").glob("*.log"))
    for file in files:
        for position, header, content in batches_of(str(file), file.stat().st_size):
            fault = fault_of(header, content)
            if fault is not None:
                failures.append(f"{topic} at {position}: {fault}")
    if tools is not None and counts:
        try:
            dump(tools, files)
            read_by_console_consumer(tools, broker.bootstrap, topic, max(counts))
        except Stopped as stopped:
            failures.append(str(stopped))
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description="Sends mutated batches and reads what was taken.")
    parser.add_argument("--seed", type=int, default=None, help="of the first round (default: a new one)")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long rounds begin (default: 1)")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    until, total = time.monotonic() + options.minutes * 60, Report()
    with tempfile.TemporaryDirectory() as folder, OdradekProcess(Path(folder)) as broker:
        tools = ToolHost()
        for number in itertools.count():
            print(f"seed {seed + number}: ", end="", flush=True)
            report = run_round(broker, tools, random.Random(seed + number), number, BATCHES_PER_ROUND)
            print(", ".join(f"{name} {count}" for name, count in report.responses.most_common()), flush=True)
            total.responses += report.responses
            total.failures += [f"seed {seed + number}: {failure}" for failure in report.failures]
            for failure in report.failures:
                print(f"  {failure}", flush=True)
            if time.monotonic() > until:
                break
        tools.close()
    print(f"{total.responses.total()} batches, {total.responses['NONE']} taken, {len(total.failures)} failures")
    raise SystemExit(1 if total.failures else 0)


if __name__ == "__main__":
    main()
