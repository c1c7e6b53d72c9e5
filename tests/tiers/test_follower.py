"""The state of a follower that begins behind the store's part of a log, and the check of a store against the metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.storage.segments.snapshots import decode_snapshot
from odradek.tiers.auxiliary_state import fetch_auxiliary_state, parse_leader_epochs
from odradek.tiers.cache import RemoteLogMetadataCache
from odradek.tiers.folder_store import FolderStore
from odradek.tiers.object_names import object_name
from odradek.tiers.segment_metadata import RemoteLogSegmentMetadata
from odradek.tiers.store import DamagedRemoteObject, PartType
from odradek.tiers.store_check import StoreReport, check_store, copied_segments

from tests.tiers.harness.tiered_log import NOW_MS, PARTITION, TieredLog


@pytest.fixture
def tiered(tmp_path: Path) -> TieredLog:
    made = TieredLog(tmp_path / "orders-0", FolderStore({"dir": str(tmp_path / "tier")}))
    made.fill(200)
    made.copy_all()
    return made


def path_of(tmp_path: Path, segment: RemoteLogSegmentMetadata, part: PartType) -> Path:
    return tmp_path / "tier" / "kafka-tiered-storage" / object_name(segment, part)


def test_follower_begins_with_the_epochs_and_producers_of_the_leader(tiered: TieredLog) -> None:
    for segment in tiered.cache.segments():
        found = fetch_auxiliary_state(tiered.store, segment)
        assert found.start_offset == segment.end_offset + 1
        assert found.epochs == [one for one in tiered.log.epochs.entries() if one[1] <= segment.end_offset]
        snapshot = Path(tiered.log.directory.file(found.start_offset, ".snapshot"))
        assert found.producers == decode_snapshot(snapshot.read_bytes())
    assert found.producers and len(found.epochs) > 3


@pytest.mark.parametrize(
    "content",
    [b"", b"0\n", b"0\n1\n", b"0\n1\n0", b"0\n2\n0 0\n", b"1\n1\n0 0\n", b"0\n1\n7 0\n", b"0\n1\n0 999\n", b"0\n1\n0 -1\n",
     b"0\n2\n1 0\n0 0\n", b"0\n2\n-1 0\n0 0\n", b"\xff", b"0\n1\n0 0 0\n"],
)  # fmt: skip
def test_epochs_that_are_not_of_the_segment_are_damaged(tiered: TieredLog, content: bytes) -> None:
    segment = tiered.cache.segments()[0]
    assert parse_leader_epochs(segment, b"0\n1\n0 0\n") == [(0, 0)]
    with pytest.raises(DamagedRemoteObject, match=r"\.leader_epoch_checkpoint is damaged at 0"):
        parse_leader_epochs(segment, content)


def test_producers_that_cannot_be_decoded_are_damaged(tiered: TieredLog) -> None:
    segment = tiered.cache.segments()[0]._replace(custom_metadata=None)

    class Cut:
        def fetch_index(self, segment: RemoteLogSegmentMetadata, part: PartType, most_bytes: int) -> bytes:
            return tiered.store.fetch_index(segment, part, most_bytes)[
                : -1 if part is PartType.PRODUCER_SNAPSHOT else None
            ]

    store: Any = Cut()
    with pytest.raises(DamagedRemoteObject, match=r"\.snapshot is damaged"):
        fetch_auxiliary_state(store, segment)


# ---- the check of a store


def checked(tiered: TieredLog, cache: RemoteLogMetadataCache | None = None) -> StoreReport:
    caches = {PARTITION: cache or tiered.cache}
    before = {one.segment_id for one in copied_segments(caches.values())}
    return check_store(tiered.store.objects(), caches, before)


def test_store_of_finished_copies_has_nothing_to_report(tiered: TieredLog) -> None:
    found = checked(tiered)
    assert (found.orphans, found.wrong_parts, found.unchecked) == ([], [], 0) and found.checked > 30
    assert check_store(tiered.store.objects(), {}, ()) == ([], [], 0, found.checked), "another cluster may have them"


def test_objects_of_no_segment_are_orphans(tiered: TieredLog) -> None:
    tiered.log.roll(NOW_MS)
    (plan,) = tiered.plans()
    tiered.store.copy_log_segment_data(plan.segment, plan.parts)
    found = checked(tiered)
    assert {one.segment_id for one in found.orphans} == {plan.segment.segment_id} and found.wrong_parts == []
    tiered.publish(plan.segment)
    assert checked(tiered).orphans == [], "it is being copied"


def test_segment_that_was_copied_while_the_store_was_listed_is_not_missing(tiered: TieredLog) -> None:
    assert check_store([], {PARTITION: tiered.cache}, ()).wrong_parts == []
    first = tiered.cache.segments()[0].segment_id
    missing = check_store([], {PARTITION: tiered.cache}, [first]).wrong_parts
    assert {one.segment.segment_id for one in missing} == {first} and len(missing) >= 5


@pytest.mark.parametrize("has_checksums", [True, False])
def test_missing_and_changed_parts_are_reported(tiered: TieredLog, tmp_path: Path, has_checksums: bool) -> None:
    first, second = tiered.cache.segments()[:2]
    path_of(tmp_path, first, PartType.TIME_INDEX).unlink()
    log = path_of(tmp_path, second, PartType.LOG)
    log.write_bytes(log.read_bytes()[:-1])
    index = path_of(tmp_path, second, PartType.OFFSET_INDEX)
    index.write_bytes(index.read_bytes() + bytes(8))
    cache = RemoteLogMetadataCache()
    segments = tiered.cache.segments()
    cache.restore(
        segments if has_checksums else [one._replace(custom_metadata=None) for one in segments],
        tiered.cache.references(),
    )
    found = checked(tiered, cache)
    wrong = {(one.segment.segment_id, one.part): (one.found, one.expected) for one in found.wrong_parts}
    expected_size = len(index.read_bytes()) - 8
    assert wrong.pop((second.segment_id, PartType.LOG)) == (second.size_bytes - 1, second.size_bytes)
    missing = wrong.pop((first.segment_id, PartType.TIME_INDEX))
    assert missing[0] is None and (missing[1] is None) != has_checksums
    if has_checksums:
        assert wrong.pop((second.segment_id, PartType.OFFSET_INDEX)) == (expected_size + 8, expected_size)
    assert wrong == {}
