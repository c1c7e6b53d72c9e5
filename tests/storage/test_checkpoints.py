"""Checkpoints, notes of clean replicas, and the data files that stay open: what counts, and what is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.storage.files import clean_replicas
from odradek.storage.files.checkpoints import (
    RECOVERY_POINTS,
    CorruptCheckpoint,
    FoundOffsets,
    decode_offsets,
    find_offsets,
    inspect_offsets,
    write_offsets,
)
from odradek.storage.files.clean_replicas import (
    CLEAN_REPLICAS_FILE,
    CleanLog,
    CleanReplica,
    CleanSegment,
    add_clean_replicas,
    compact_clean_replicas,
    folder_time,
    read_clean_replicas,
    write_clean_replicas,
)
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.files.open_files import OpenFiles

CHECKSUM = f"{RECOVERY_POINTS}.odradek-crc"
OFFSETS = {("t", 0): 0, ("u", 7): 9}


# ---- checkpoints


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"0\n1\nt 0 -1\n", "an offset is negative"),
        (b"1\n0\n", "version 1 is not known"),
        (b"0\n2\nt 0 0\n", "1 entries, but its header has the count 2"),
        (b"0\n0\nt 0 0\n", "1 entries, but its header has the count 0"),
        (b"0\n1\nt 0\n", "it does not consist of"),
        (b"0\n", "it does not consist of"),
        (b"0\n1\n\xff 0 0\n", "it does not consist of"),
    ],
)
def test_damaged_checkpoint_counts_as_none_and_says_why(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(CorruptCheckpoint, match=words):
        decode_offsets(content)
    (tmp_path / RECOVERY_POINTS).write_bytes(content)
    found = find_offsets(str(tmp_path), RECOVERY_POINTS)
    assert (found.offsets, found.is_proven) == ({}, False)
    assert found.note == f"{tmp_path}/{RECOVERY_POINTS}: damaged ({found.note.split('(', 1)[1] if found.note else ''}"
    assert words in (found.note or "") and "it is rebuilt from the logs" in (found.note or "")


def test_checkpoint_is_proven_by_its_checksum_or_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / RECOVERY_POINTS
    write_offsets(str(tmp_path), RECOVERY_POINTS, OFFSETS)
    first = path.read_bytes()
    assert find_offsets(str(tmp_path), RECOVERY_POINTS) == FoundOffsets(OFFSETS, is_proven=True)
    write_offsets(str(tmp_path), RECOVERY_POINTS, {("t", 0): 5})
    path.write_bytes(first)
    assert find_offsets(str(tmp_path), RECOVERY_POINTS).is_proven, "a crash came between the two files"
    write_offsets(str(tmp_path), RECOVERY_POINTS, {("t", 0): 6})
    write_offsets(str(tmp_path), RECOVERY_POINTS, {("t", 0): 7})
    path.write_bytes(first)
    assert find_offsets(str(tmp_path), RECOVERY_POINTS) == FoundOffsets(OFFSETS, is_proven=False)
    (tmp_path / CHECKSUM).unlink()
    assert find_offsets(str(tmp_path), RECOVERY_POINTS) == FoundOffsets(OFFSETS, is_proven=False), "as Kafka writes it"


@pytest.mark.parametrize(
    ("content", "has_checksum", "is_noted"),
    [(None, False, False), (b"", False, False), (None, True, True), (b"", True, True)],
)
def test_missing_checkpoint_is_noted_where_there_was_one(
    tmp_path: Path, content: bytes | None, has_checksum: bool, is_noted: bool
) -> None:
    if content is not None:
        (tmp_path / RECOVERY_POINTS).write_bytes(content)
    if has_checksum:
        (tmp_path / CHECKSUM).write_bytes(b"01234567")
    found = find_offsets(str(tmp_path), RECOVERY_POINTS)
    assert (found.offsets, found.is_proven, found.note is not None) == ({}, False, is_noted)


@pytest.mark.parametrize("name", [RECOVERY_POINTS, CHECKSUM])
def test_directory_in_the_place_of_a_checkpoint_is_set_aside_by_a_start_only(tmp_path: Path, name: str) -> None:
    write_offsets(str(tmp_path), RECOVERY_POINTS, OFFSETS)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    found = inspect_offsets(str(tmp_path), RECOVERY_POINTS)
    assert found.offsets == {} and f"{name}: a directory" in (found.note or "") and (tmp_path / name).is_dir()
    found = find_offsets(str(tmp_path), RECOVERY_POINTS)
    assert not (tmp_path / name).is_dir() and len(list(tmp_path.glob("*.damaged"))) == 1
    assert found.offsets == ({} if name == RECOVERY_POINTS else OFFSETS) and not found.is_proven
    write_offsets(str(tmp_path), RECOVERY_POINTS, OFFSETS)
    assert inspect_offsets(str(tmp_path), RECOVERY_POINTS) == FoundOffsets(OFFSETS, is_proven=True)


def test_checkpoints_on_a_failing_disk_name_the_log_directory(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"")
    with pytest.raises(LogDirectoryFailure, match="reading") as raised:
        find_offsets(str(place), RECOVERY_POINTS)
    assert raised.value.directory == str(place)
    with pytest.raises(LogDirectoryFailure, match=f"writing {RECOVERY_POINTS}"):
        write_offsets(str(place), RECOVERY_POINTS, OFFSETS)


# ---- notes of clean replicas


def replica(number: int, *, has_log: bool = True) -> CleanReplica:
    log = CleanLog(0, 5, [CleanSegment(0, 70, 8)], [5], [], False, -1, 0, True)
    return CleanReplica(bytes([number]) * 16, number, number % 2 == 0, log if has_log else None)


def test_last_note_of_a_replica_counts_and_damaged_lines_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_replicas, "_REPLICAS_PER_LINE", 2)
    folder, path = str(tmp_path), tmp_path / CLEAN_REPLICAS_FILE
    assert read_clean_replicas(folder) == {}
    notes = {("t", number): replica(number, has_log=number > 0) for number in range(5)}
    write_clean_replicas(folder, notes.items())
    assert read_clean_replicas(folder) == notes and len(path.read_bytes().splitlines()) == 3
    size = add_clean_replicas(folder, [(("t", 0), replica(9))])
    assert size == path.stat().st_size
    assert read_clean_replicas(folder) == notes | {("t", 0): replica(9)}
    assert compact_clean_replicas(folder) == path.stat().st_size < size
    assert read_clean_replicas(folder) == notes | {("t", 0): replica(9)}
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b'"t"', b'"u"') + lines[2][:-3])
    assert read_clean_replicas(folder) == {("t", 0): replica(9), ("t", 1): replica(1)}


def test_notes_of_another_version_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_replicas, "_VERSION", clean_replicas._VERSION + 1)
    write_clean_replicas(str(tmp_path), [(("t", 0), replica(0))])
    assert len(read_clean_replicas(str(tmp_path))) == 1
    monkeypatch.undo()
    assert read_clean_replicas(str(tmp_path)) == {}
    (tmp_path / CLEAN_REPLICAS_FILE).unlink()
    (tmp_path / CLEAN_REPLICAS_FILE).mkdir()
    assert read_clean_replicas(str(tmp_path)) == {}


def test_folder_that_others_may_read_has_no_time(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    assert folder_time(str(folder)) is None
    folder.mkdir(0o700)
    assert folder_time(str(folder)) == folder.stat().st_mtime_ns
    for mode in (0o710, 0o701, 0o704):
        folder.chmod(mode)
        assert folder_time(str(folder)) is None


# ---- data files that stay open


class Owner:
    def __init__(self, name: str, released: list[str], *, used: bool = False) -> None:
        self.used = used
        self._name, self._released = name, released

    def release_file(self) -> None:
        self._released.append(self._name)


def admitted(files: OpenFiles, *names: str, used: str = "") -> tuple[dict[str, Owner], list[str]]:
    released: list[str] = []
    owners = {name: Owner(name, released, used=name in used) for name in names}
    for owner in owners.values():
        files.admit(owner)
    return owners, released


@pytest.mark.parametrize(
    ("used", "released"),
    [("", ["a", "b"]), ("a", ["b", "c"]), ("b", ["a", "c"]), ("ab", ["a", "b"]), ("abcd", ["a", "b"])],
)
def test_file_that_was_not_used_lately_is_closed_first(used: str, released: list[str]) -> None:
    files = OpenFiles(limit=2)
    _, found = admitted(files, "a", "b", used=used)
    owners, more = admitted(files, "c", "d", used=used)
    assert len(files) == 2
    assert [*found, *more] == released
    assert owners["d"] in files._ring, "the newest stays"


@pytest.mark.parametrize(("count", "left"), [(5, 4), (4, 4), (3, 3), (1, 1), (0, 0)])
def test_files_are_closed_down_to_a_number(count: int, left: int) -> None:
    files = OpenFiles(limit=9)
    _, released = admitted(files, "a", "b", "c", "d")
    files.shrink_to(count)
    assert (len(files), released) == (left, list("abcd")[: 4 - left])


def test_file_that_is_kept_is_not_closed_whatever_the_number() -> None:
    files = OpenFiles(limit=9)
    owners, released = admitted(files, "a", "b")
    files.shrink_to(0, kept=owners["a"])
    assert (len(files), released) == (1, ["b"])
    files.shrink_to(0, kept=owners["a"])
    assert (len(files), released) == (1, ["b"])


def test_half_of_the_files_are_closed_for_want_of_descriptors() -> None:
    files = OpenFiles(limit=9)
    assert not files.close_some(), "there is none"
    owners, released = admitted(files, "a", "b", "c", "d", "e")
    assert files.close_some() and released == ["a", "b", "c"] and len(files) == 2
    files.forget(owners["d"])
    assert files.close_some() and released == ["a", "b", "c", "e"]
    assert not files.close_some()
