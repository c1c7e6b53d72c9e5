"""A log that is cut with a copy leaves its former file to its readers, sockets too."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

import pytest
from odradek.storage.log.config import LogConfig
from odradek.storage.log.cut_copy import CutCopy
from odradek.storage.log.log import Log
from odradek.storage.segments.slices import LogSlice

from tests.harness.examples import examples
from tests.storage.conftest import Logbook

MOST_LENT = 60_000


def filled(logbook: Logbook, config: LogConfig, rng: random.Random) -> Log:
    log = logbook.open(config)
    for _ in range(rng.randrange(20, 60)):
        logbook.append(log, rng.randbytes(rng.randrange(10, 1500)))
    return log


def lent(slice_: LogSlice) -> socket.socket:
    """The other end of a socket that has pages of the slice."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        reader = socket.create_connection(server.getsockname())
        sender, _ = server.accept()
    with sender:
        sent = os.sendfile(sender.fileno(), slice_.fd, slice_.position, slice_.size)
    assert sent == slice_.size
    return reader


def received(reader: socket.socket) -> bytes:
    with reader, reader.makefile("rb") as file:
        return file.read()


@pytest.mark.parametrize("seed", range(examples(10)))
def test_bytes_that_a_socket_has_stay_as_they_were_when_the_log_is_cut(seed: int, logbook: Logbook) -> None:
    rng = random.Random(seed)
    log = filled(logbook, LogConfig(segment_bytes=rng.choice((20_000, 1 << 20))), rng)
    slices = [log.read(offset, MOST_LENT) for offset in (0, log.active.base_offset)]
    expected = [one.bytes() for one in slices]
    readers = [lent(one) for one in slices]
    offset = rng.randrange(1, log.log_end_offset)
    stays = logbook.read_all(log)
    copy = log.copy_for_cut(offset)
    assert copy is None or copy.write()
    log.truncate_to(offset, logbook.now_ms, copy)
    assert log.log_end_offset == offset and stays.startswith(logbook.read_all(log))
    for _ in range(5):
        logbook.append(log, b"other" * 300)
    assert [received(one) for one in readers] == expected
    whole = logbook.read_all(log)
    log.close(logbook.now_ms)
    assert not list(Path(log.path).glob("*.tmp"))
    assert logbook.read_all(logbook.open(LogConfig())) == whole


def test_copy_that_was_not_used_is_removed_by_a_start(logbook: Logbook) -> None:
    log = filled(logbook, LogConfig(), random.Random(1))
    log.read(0, MOST_LENT)
    copy = log.copy_for_cut(9)
    assert copy is not None and copy.write()
    whole = logbook.read_all(log)
    log.close(logbook.now_ms)
    assert Path(copy.path).exists()
    assert logbook.read_all(logbook.open(LogConfig())) == whole
    assert not Path(copy.path).exists()


def test_copy_for_another_place_is_not_used(logbook: Logbook) -> None:
    log = filled(logbook, LogConfig(), random.Random(2))
    log.read(0, MOST_LENT)
    whole = logbook.read_all(log)
    copy = log.copy_for_cut(9)
    assert copy is not None and copy.write()
    log.truncate_to(5, logbook.now_ms, copy)
    assert log.log_end_offset == 5 and whole.startswith(logbook.read_all(log))
    copy.discard()
    copy.discard()


def test_segment_without_readers_and_disk_without_room_have_no_copy(logbook: Logbook) -> None:
    log = filled(logbook, LogConfig(), random.Random(3))
    assert log.copy_for_cut(9) is None, "nobody has read"
    log.read(0, MOST_LENT)
    assert log.copy_for_cut(0) is None and log.copy_for_cut(log.log_end_offset) is None
    copy = log.copy_for_cut(9)
    assert copy is not None
    assert not CutCopy(log.active, log.active.size + 1).write(), "the file has less"
    Path(copy.path).mkdir()
    assert not copy.write()
