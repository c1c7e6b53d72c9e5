"""Logs and batches for the tests of storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log

from compat_tests.fixtures import java_tools, tools  # noqa: F401  (found by being here)

NOW_MS = 1_700_000_000_000


class Logbook:
    """Makes batches, and opens and reads one log repeatedly."""

    now_ms = NOW_MS

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, config: LogConfig | None = None, **options: object) -> Log:
        return Log.open(self.path, "t", 0, config or LogConfig(), now_ms=self.now_ms, **options)  # type: ignore[arg-type]

    def batch(
        self, base_offset: int, values: Sequence[bytes | tuple[bytes | None, bytes | None]], **kind: object
    ) -> bytes:
        """Returns a batch; a value is bytes, or a pair of key and value. `at`: the timestamp of its first record."""
        at = kind.pop("at", NOW_MS + base_offset)
        pairs = [value if isinstance(value, tuple) else (None, value) for value in values]
        records = [Record(base_offset + i, at + i, key, value) for i, (key, value) in enumerate(pairs)]  # type: ignore[operator]
        return encode_batch(records, **({"leader_epoch": 0} | kind))  # type: ignore[arg-type]

    def append(self, log: Log, *values: bytes | tuple[bytes | None, bytes | None], **kind: object) -> bytes:
        """Appends one batch at the log's end."""
        batch = self.batch(log.log_end_offset, values, **kind)
        log.append(batch, None, self.now_ms)
        return batch

    def read_all(self, log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> bytes:
        """Returns all bytes from `offset` on, as a reader gets them."""
        at = log.log_start_offset if offset is None else offset
        found = bytearray()
        while at < log.log_end_offset:
            piece = log.read(at, max_bytes)
            if not piece.size:
                break
            found += piece.bytes()
            assert piece.next_offset > at
            at = piece.next_offset
        return bytes(found)

    def values(self, log: Log, offset: int | None = None) -> list[tuple[int, bytes | None]]:
        data = self.read_all(log, offset)
        return [(r.offset, r.value) for position, _ in iter_headers(data) for r in decode_batch(data, position)]


@pytest.fixture
def logbook(tmp_path: Path) -> Logbook:
    return Logbook(tmp_path / "logs" / "t-0")


@pytest.fixture
def make_logbook(tmp_path: Path) -> Callable[[str], Logbook]:
    return lambda name: Logbook(tmp_path / name / "t-0")
