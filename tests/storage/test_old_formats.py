"""Logs with records of message formats 0 and 1 (before Kafka 0.11): opening one raises a clear error and changes nothing."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.errors import OldFormatInLog
from odradek.storage.directory import CLEAN_SHUTDOWN_FILE, LogDirectory
from odradek.storage.files.segment_files import LOG_SUFFIX
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log

from tests.storage.formatted import format_directory

FIRST_SEGMENT = f"{0:020d}{LOG_SUFFIX}"
MESSAGES = 5


def old_message(message_format: int, offset: int, value: bytes) -> bytes:
    timestamp = struct.pack(">q", 1_400_000_000_000) if message_format else b""
    body = struct.pack(">bb", message_format, 0) + timestamp + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def old_messages(message_format: int) -> bytes:
    return b"".join(old_message(message_format, offset, b"v" * 40) for offset in range(MESSAGES))


def opened(path: Path) -> Log:
    format_directory(path)
    return LogDirectory.open(path).open_log("t", 0, LogConfig(), now_ms=1)


@pytest.mark.parametrize("message_format", [0, 1])
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_ends_in_an_old_format_is_named_and_left_as_it_is(
    tmp_path: Path, message_format: int, clean: bool
) -> None:
    segment = tmp_path / "t-0" / FIRST_SEGMENT
    segment.parent.mkdir()
    segment.write_bytes(old_messages(message_format))
    if clean:
        (tmp_path / CLEAN_SHUTDOWN_FILE).write_text('{"version":0,"brokerEpoch":1}')
    with pytest.raises(OldFormatInLog, match=f"{FIRST_SEGMENT} has records of message format {message_format}"):
        opened(tmp_path)
    assert segment.read_bytes() == old_messages(message_format)


def test_zeros_that_a_power_cut_left_are_no_old_format(tmp_path: Path) -> None:
    segment = tmp_path / "t-0" / FIRST_SEGMENT
    segment.parent.mkdir()
    segment.write_bytes(bytes(500))
    assert opened(tmp_path).log_end_offset == 0


def test_old_format_segment_below_newer_ones_is_reported_when_read(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / FIRST_SEGMENT).write_bytes(old_messages(1))
    (directory / f"{MESSAGES:020d}{LOG_SUFFIX}").write_bytes(b"")
    (tmp_path / CLEAN_SHUTDOWN_FILE).write_text('{"version":0,"brokerEpoch":1}')
    log = opened(tmp_path)
    with pytest.raises(OldFormatInLog) as reported:
        log.read(2, 100)
    assert reported.value.error_code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert log.read(0, 10_000).bytes() == old_messages(1), "a whole segment is given as it is, as Kafka gives it"
