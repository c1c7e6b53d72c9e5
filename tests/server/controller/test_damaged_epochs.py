"""Damage to the leader epochs of the metadata log, which no CRC covers: a voter with it must win no election by it."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.replication.quorum.log import SnapshotId as RaftEnd
from odradek.server.controller.flushed_end import FLUSHED_END
from odradek.server.controller.metadata_log import DIRECTORY_NAME, QuorumLog
from odradek.server.controller.metadata_opening import _open_quorum_log
from odradek.storage.files.quorum_state import COPY_NAME, QUORUM_STATE, QuorumState, write_quorum_state
from odradek.storage.log.epochs import FILE_NAME as EPOCHS_FILE

from tests.server.harness.metadata_logs import (
    CLOCK,
    METADATA_VERSION,
    NODE_ID,
    OTHER,
    config_of,
    of_several,
    topic,
)

#: The epoch of each batch, and where the field is in it.
EPOCHS, FIELD_AT = (1, 1, 2, 2, 2, 6, 6), 12
TRUE_ENTRIES = [(1, 0), (2, 2), (6, 5)]


def filled(folder: Path, *, segments: bool = False) -> Path:
    """Returns the folder of a log with a record in each batch; with `segments`, each in a segment."""
    config = of_several(folder)
    place = Path(config.metadata_log_dir, DIRECTORY_NAME)
    place.mkdir(parents=True)
    opened = QuorumLog(place, config, CLOCK.now_ms())
    for number, epoch in enumerate(EPOCHS):
        opened.append([topic(f"t{number}")], epoch, CLOCK.now_ms(), METADATA_VERSION, True)
        if segments:
            opened.log.roll(CLOCK.now_ms())
    opened.close(CLOCK.now_ms())
    write_quorum_state(place, QuorumState(OTHER, EPOCHS[-1]), 0, [NODE_ID, OTHER])
    return place


def set_epoch(place: Path, number: int, epoch: int) -> None:
    """Writes another epoch into a batch."""
    for file in sorted(place.glob("*.log")):
        content = bytearray(file.read_bytes())
        for position, header in iter_headers(bytes(content)):
            if header.base_offset == number:
                struct.pack_into(">i", content, position + FIELD_AT, epoch)
                file.write_bytes(content)
                return
    raise AssertionError(f"no batch {number}")


def flips() -> list[tuple[int, int]]:
    """Returns numbers of batches, each with its epoch and one of its bits changed."""
    found = [(number, epoch ^ 1 << bit) for number, epoch in enumerate(EPOCHS) for bit in range(31)]
    return random.Random(1).sample(found, 60) + [
        (number, EPOCHS[number] ^ 1 << bit) for number in (5, 6) for bit in (0, 1, 2, 4)
    ]


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize(("number", "epoch"), flips())
def test_log_with_a_damaged_epoch_is_fetched_again_or_claims_what_is_true(
    number: int, epoch: int, segments: bool, tmp_path: Path
) -> None:
    place = filled(tmp_path, segments=segments)
    set_epoch(place, number, epoch)
    opened = _open_quorum_log(of_several(tmp_path), CLOCK, place)
    if opened.end_offset:
        assert (opened.end, opened.log.epochs.entries()) == (RaftEnd(len(EPOCHS), EPOCHS[-1]), TRUE_ENTRIES)
    else:
        assert opened.acknowledged == RaftEnd(len(EPOCHS), EPOCHS[-1])
    opened.close(CLOCK.now_ms())


@pytest.mark.parametrize("without", [EPOCHS_FILE, FLUSHED_END, QUORUM_STATE])
@pytest.mark.parametrize(("number", "epoch"), [(3, 18), (6, 22), (5, 1 << 20)])
def test_one_file_less_does_not_hide_a_damaged_epoch(without: str, number: int, epoch: int, tmp_path: Path) -> None:
    place = filled(tmp_path)
    for file in (place / without, tmp_path / without, *([tmp_path / COPY_NAME] if without == QUORUM_STATE else [])):
        file.unlink(missing_ok=True)
    set_epoch(place, number, epoch)
    opened = _open_quorum_log(of_several(tmp_path), CLOCK, place)
    assert opened.end_offset == 0
    opened.close(CLOCK.now_ms())


@pytest.mark.parametrize(("number", "epoch"), [(3, 18), (6, 22), (0, 0)])
def test_single_voter_keeps_its_records(
    number: int, epoch: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = filled(tmp_path)
    set_epoch(place, number, epoch)
    opened = _open_quorum_log(config_of(tmp_path), CLOCK, place)
    assert opened.end_offset == len(EPOCHS)
    assert "the records are whole" in caplog.text
    opened.close(CLOCK.now_ms())


def test_sound_log_is_not_suspected(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = filled(tmp_path)
    for _ in range(2):
        opened = _open_quorum_log(of_several(tmp_path), CLOCK, place)
        assert (opened.end, opened.log.epochs.entries()) == (RaftEnd(len(EPOCHS), EPOCHS[-1]), TRUE_ENTRIES)
        opened.close(CLOCK.now_ms())
    assert not caplog.text
