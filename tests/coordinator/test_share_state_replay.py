"""Replays of share-state records: each field of an update alone, without a snapshot, and below an earlier leader epoch."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.coordinator.result import Record
from odradek.coordinator.share_state import (
    PersisterConfig,
    PersisterState,
    ShareKey,
    ShareState,
)
from odradek.coordinator.state_batches import StateBatch
from odradek.protocol.internal.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotStateBatch,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateStateBatch,
    ShareUpdateValue,
)

KEY = ShareKey("g", bytes(16), 0)


def replayed(*values: Any) -> ShareState:
    state = PersisterState(PersisterConfig(3, 1000))
    for value in values:
        kind = ShareSnapshotKey if isinstance(value, ShareSnapshotValue) else ShareUpdateKey
        state.replay(Record(kind(group_id="g", topic_id=bytes(16), partition=0), value))
    return state.partitions[KEY]


def snapshot(**fields: Any) -> ShareSnapshotValue:
    values = {
        "snapshot_epoch": 2, "state_epoch": 5, "leader_epoch": 4, "start_offset": 10, "delivery_complete_count": 3,
        "create_timestamp": 7, "write_timestamp": 8, "state_batches": [ShareSnapshotStateBatch(10, 12, 0, 1)],
    }  # fmt: skip
    return ShareSnapshotValue(**{**values, **fields})


def update(**fields: Any) -> ShareUpdateValue:
    values = {
        "snapshot_epoch": 2,
        "leader_epoch": -1,
        "start_offset": -1,
        "delivery_complete_count": 3,
        "state_batches": [],
    }
    return ShareUpdateValue(**{**values, **fields})


BEFORE = ShareState(2, 5, 4, 10, 3, (StateBatch(10, 12, 0, 1),), 7, 8, 4)


def test_snapshot_is_the_whole_state() -> None:
    assert replayed(snapshot()) == BEFORE
    after = replayed(snapshot(), snapshot(snapshot_epoch=3, leader_epoch=2, start_offset=0, state_batches=[]))
    assert (after.snapshot_epoch, after.leader_epoch, after.start_offset, after.batches) == (3, 2, 0, ())
    assert after.fencing_leader_epoch == 4, "the highest one"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"leader_epoch": 0}, {"leader_epoch": 0}),
        ({"leader_epoch": 6}, {"leader_epoch": 6, "fencing_leader_epoch": 6}),
        ({"start_offset": 0}, {"start_offset": 0}),
        ({"start_offset": 11}, {"start_offset": 11, "batches": (StateBatch(11, 12, 0, 1),)}),
        ({"delivery_complete_count": 9}, {"delivery_complete_count": 9}),
        (
            {"state_batches": [ShareUpdateStateBatch(12, 14, 2, 2)]},
            {"batches": (StateBatch(10, 11, 0, 1), StateBatch(12, 14, 2, 2))},
        ),
    ],
)
def test_update_changes_what_it_names(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    found = replayed(snapshot(), update(**fields))
    fields_of = ShareState.__dataclass_fields__
    assert found == ShareState(**{**{name: getattr(BEFORE, name) for name in fields_of}, "update_count": 1, **expected})
    assert replayed(snapshot(), update(**fields), update()).update_count == 2


def test_update_without_its_snapshot_counts_alone() -> None:
    found = replayed(update(leader_epoch=6, start_offset=5, state_batches=[ShareUpdateStateBatch(5, 6, 0, 1)]))
    assert (found.snapshot_epoch, found.leader_epoch, found.fencing_leader_epoch) == (2, 6, 6)
    assert (found.start_offset, found.batches) == (5, (StateBatch(5, 6, 0, 1),))
