"""Damage to a partition's files, as disks and people cause it, and the records that readers still get."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import odradek
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import HEADER_BYTES, BatchHeader, check_crc, iter_headers
from odradek.protocol.records.errors import CorruptBatch, OldMessageFormat
from odradek.protocol.records.record import decode_batch
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.partitions.sendable_records import COPIED_BYTES

from tests.server.harness.data_path import DataPath, batch_of

#: Large enough for some batches, small enough for many segments.
SEGMENT_BYTES = 16_384
RECORDS_PER_BATCH = 3

Damaging = Callable[[Path], None]


def segments_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def batches_in(segment: Path) -> list[tuple[int, BatchHeader]]:
    return list(iter_headers(segment.read_bytes()))


def overwrite(file: Path, position: int, data: bytes) -> None:
    """Writes in place, so that open files see the change."""
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(data)


def middle_batch(segment: Path) -> tuple[int, BatchHeader]:
    batches = batches_in(segment)
    return batches[len(batches) // 2]


def field(offset: int, data: bytes) -> Damaging:
    """Writes `data` into the batch in the middle of the segment."""

    def damage(segment: Path) -> None:
        overwrite(segment, middle_batch(segment)[0] + offset, data)

    return damage


def flip_payload(segment: Path) -> None:
    position, _ = middle_batch(segment)
    at = position + HEADER_BYTES + 5
    overwrite(segment, at, bytes([segment.read_bytes()[at] ^ 0x10]))


def zeros(segment: Path) -> None:
    """Zeroes a page, as a disk may lose it, across the boundaries of batches."""
    overwrite(segment, 4096, bytes(4096))


def halve(segment: Path) -> None:
    with segment.open("r+b") as opened:
        opened.truncate(segment.stat().st_size // 2)


def empty(segment: Path) -> None:
    with segment.open("r+b") as opened:
        opened.truncate(0)


def remove(segment: Path) -> None:
    segment.unlink()


DAMAGES: dict[str, Damaging] = {
    "payload": flip_payload,
    "crc": field(17, b"\xde\xad\xbe\xef"),
    "length-too-small": field(8, struct.pack(">i", 3)),
    "length-too-large": field(8, struct.pack(">i", 1 << 30)),
    "length-a-little-off": field(8, struct.pack(">i", 500)),
    "magic": field(16, b"\x4d"),
    "old-magic": field(16, b"\x01"),
    "base-offset-too-small": field(0, struct.pack(">q", 1)),
    "base-offset-too-large": field(0, struct.pack(">q", 1 << 40)),
    "last-offset-delta": field(23, struct.pack(">i", -5)),
    "zeros": zeros,
    "halved": halve,
    "emptied": empty,
    "removed": remove,
}


class RottingTopic:
    """A topic of one partition with many small segments in a broker of this process."""

    def __init__(self, broker: odradek.Broker, batches: int = 120, **configs: str) -> None:
        self.broker = broker
        self.path = DataPath(broker)
        configs = {
            "internal_segment_bytes": str(SEGMENT_BYTES),
            "index_interval_bytes": "1024",
            "retention_ms": "-1",
            **configs,
        }
        self.name = self.path.topic(**configs)
        #: Value by offset.
        self.sent: dict[int, bytes] = {}
        for _ in range(batches):
            self.produce()

    def produce(self) -> int:
        """Produces a batch. Returns its base offset."""
        first = len(self.sent)
        values = [f"{first + number:06d}".encode() * 40 for number in range(RECORDS_PER_BATCH)]
        response = self.path.produce(self.name, batch_of(*values, timestamp=1_000_000 + first))
        assert (response.error_code, response.base_offset) == (0, first)
        self.sent.update({first + number: value for number, value in enumerate(values)})
        return first

    @property
    def hosted(self) -> HostedPartition:
        return self.path.hosted(self.name)

    @property
    def folder(self) -> Path:
        return Path(self.hosted.log.path)

    def range_of(self, segment: Path) -> tuple[int, int]:
        """Returns the first offset of the segment and of the next one."""
        bases = [int(file.stem) for file in segments_of(self.folder)]
        base = int(segment.stem)
        return base, min((one for one in bases if one > base), default=len(self.sent))

    def run(self, work: Callable[[], Any]) -> Any:
        """Runs a coroutine in the broker's loop."""
        loop = self.broker._running().loop
        return asyncio.run_coroutine_threadsafe(work(), loop).result(30)

    def scrub(self) -> None:
        self.run(self.broker.server.replicas.scrubber.round)

    def read(self, offset: int, max_bytes: int = COPIED_BYTES) -> tuple[int, dict[int, bytes]]:
        """Returns the error code and the records of the good batches in the fetch response."""
        data = self.path.fetch(self.name, offset, max_bytes=max_bytes)
        return data.error_code, good_records(bytes(data.records or b""))

    def read_around(self, start: int = 0) -> tuple[dict[int, bytes], set[int]]:
        """Returns all records of a client that seeks past each unreadable offset, and these offsets."""
        got: dict[int, bytes] = {}
        lost: set[int] = set()
        offset = start
        while offset < len(self.sent):
            error, records = self.read(offset)
            assert error in (0, ErrorCode.CORRUPT_MESSAGE), ErrorCode(error).name
            if error or not records:
                lost.add(offset)
                offset += 1
            else:
                got |= {at: value for at, value in records.items() if at >= offset}
                offset = max(records) + 1
        return got, lost


def good_records(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    with suppress(CorruptBatch, OldMessageFormat):
        for position, header in iter_headers(data):
            check_crc(data, position, header)
            found |= {one.offset: one.value or b"" for one in decode_batch(data, position, header)}
    return found
