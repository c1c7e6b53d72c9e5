"""The claims of checkpoints about the ends of logs: limits, and replicas that are gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.storage import claims as claims_module
from odradek.storage.claims import GONE, CheckpointClaims
from odradek.storage.directory import LogDirectory, checkpoints_of
from odradek.storage.files.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, find_offsets, write_offsets
from odradek.storage.log.config import LogConfig

from tests.storage.conftest import NOW_MS, Logbook
from tests.storage.formatted import format_directory

ONE, OTHER = ("t", 0), ("t", 1)


class Written:
    """Claims of a folder, and the names of the checkpoints that were written."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = str(path)
        self.names: list[str] = []
        self.claims = CheckpointClaims(self.path, {})
        write = claims_module.write_offsets

        def noting(directory: str, name: str, offsets: dict[tuple[str, int], int]) -> None:
            self.names.append(name)
            write(directory, name, offsets)

        monkeypatch.setattr(claims_module, "write_offsets", noting)

    def read(self, name: str = HIGH_WATERMARKS) -> dict[tuple[str, int], int]:
        return find_offsets(self.path, name).offsets


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    return Written(tmp_path, monkeypatch)


def test_checkpoint_is_written_when_it_differs(written: Written) -> None:
    for offset, count in ((5, 1), (5, 1), (6, 2)):
        written.claims.write(HIGH_WATERMARKS, {ONE: offset}, written.claims.age)
        assert len(written.names) == count
    assert written.read() == {ONE: 6}


def test_checkpoint_of_another_program_is_written_again_with_its_checksum(tmp_path: Path) -> None:
    claims = CheckpointClaims(str(tmp_path), {HIGH_WATERMARKS: {ONE: 5}})
    claims.write(HIGH_WATERMARKS, {ONE: 5}, claims.age)
    assert find_offsets(str(tmp_path), HIGH_WATERMARKS).offsets == {ONE: 5}


def test_many_logs_are_lowered_in_one_write_of_each_checkpoint_that_claims_more(written: Written) -> None:
    keys = [("t", number) for number in range(1000)]
    for name, offset in ((HIGH_WATERMARKS, 9500), (RECOVERY_POINTS, 3000)):
        written.claims.write(name, dict.fromkeys(keys, offset))
    written.names.clear()
    for key in keys[:-1]:
        assert written.claims.reaches(key, 3500)
        written.claims.limit(key, 3500)
    written.claims.lower()
    assert written.names == [HIGH_WATERMARKS]
    assert written.read() == {**dict.fromkeys(keys, 3500), keys[-1]: 9500}
    assert not written.claims.reaches(ONE, 3500)


def test_no_write_raises_a_claim_before_the_log_is_cut(written: Written) -> None:
    written.claims.limit(ONE, 3500)
    written.claims.write(HIGH_WATERMARKS, written.claims.bounded({ONE: 9500, OTHER: 7}), written.claims.age)
    assert written.read() == {ONE: 3500, OTHER: 7}


def test_offsets_that_were_collected_before_a_limit_are_not_written(written: Written) -> None:
    age = written.claims.age
    written.claims.limit(ONE, 3500)
    written.claims.release(ONE)
    written.claims.write(HIGH_WATERMARKS, {ONE: 9500}, age)
    assert written.names == [] and not written.claims.reaches(ONE, 3500)


def test_failed_write_leaves_the_claim_that_it_may_have_made(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise OSError

    monkeypatch.setattr(claims_module, "write_offsets", fails)
    with pytest.raises(OSError):
        written.claims.write(HIGH_WATERMARKS, {ONE: 9500})
    assert written.claims.reaches(ONE, 9499)


def test_claims_of_a_replica_that_is_gone_are_dropped_once(written: Written) -> None:
    written.claims.write(HIGH_WATERMARKS, {ONE: 9500, OTHER: 0})
    for key in (ONE, OTHER, ("u", 0)):
        written.claims.limit(key, GONE)
    assert written.claims.has_gone()
    written.claims.lower()
    assert written.read() == {} and not written.claims.has_gone()


def test_new_log_begins_without_the_claims_of_a_former_one(written: Written) -> None:
    written.claims.write(HIGH_WATERMARKS, {ONE: 9500, OTHER: 7})
    written.claims.begin(ONE)
    assert written.read() == {OTHER: 7}
    count = len(written.names)
    written.claims.begin(("u", 0))
    assert len(written.names) == count, "nothing is to be dropped"


@pytest.mark.parametrize("is_replicated", [False, True])
def test_topic_that_was_deleted_and_created_again_ends_where_it_ends_after_a_crash(
    tmp_path: Path, is_replicated: bool
) -> None:
    format_directory(tmp_path)
    directory = LogDirectory.open(tmp_path)
    book = Logbook(tmp_path / "t-0")
    log = directory.open_log("t", 0, LogConfig(), now_ms=NOW_MS, is_replicated=is_replicated)
    for number in range(9):
        book.append(log, b"%d" % number)
    log.flush(NOW_MS)
    directory.claims.write(RECOVERY_POINTS, checkpoints_of([log]).recovery_points)
    directory.claims.write(HIGH_WATERMARKS, {ONE: 9})
    directory.discard(log, NOW_MS)
    log = directory.open_log("t", 0, LogConfig(), now_ms=NOW_MS, is_replicated=is_replicated)
    book.append(log, b"new")
    directory.close()
    log = LogDirectory.open(tmp_path).open_log("t", 0, LogConfig(), now_ms=NOW_MS, is_replicated=is_replicated)
    assert (log.log_end_offset, list(log.damage)) == (1, [])


@pytest.mark.parametrize(("is_replicated", "end"), [(True, 1), (False, 9)])
def test_checkpoint_of_another_program_counts_for_the_only_replica_after_a_crash(
    tmp_path: Path, is_replicated: bool, end: int
) -> None:
    """Another program may have cut the log of a follower, and crashed before it lowered the checkpoint."""
    format_directory(tmp_path)
    directory = LogDirectory.open(tmp_path)
    log = directory.open_log("t", 0, LogConfig(), now_ms=NOW_MS)
    Logbook(tmp_path / "t-0").append(log, b"a")
    directory.close()
    for name in (HIGH_WATERMARKS, RECOVERY_POINTS):
        write_offsets(str(tmp_path), name, {ONE: 9})
        (tmp_path / f"{name}.odradek-crc").unlink()
    log = LogDirectory.open(tmp_path).open_log("t", 0, LogConfig(), now_ms=NOW_MS, is_replicated=is_replicated)
    assert log.log_end_offset == end
