"""The records of classic groups, written in their shard."""

from __future__ import annotations

from ....protocol.internal.consumer_offsets import GroupMetadataValue
from ..group_records import GROUP_METADATA_VERSION, group_record
from ..shard_state import ShardState
from .group import DEPARTURE_DELAY_MS_PER_MEMBER, MANY_MEMBERS, ClassicGroup


def write_group(state: ShardState, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    state.write(group_record(group.group_id, group.as_record(assignments)))


def can_be_stored(state: ShardState, group_id: str, record: GroupMetadataValue) -> bool:
    limit = state.config.max_record_bytes
    # Adding up comes first: to encode 90 MB holds up others for 50 ms.
    if sum(len(member.subscription) + len(member.assignment) for member in record.members) > limit:
        return False
    return state.can_store(record, group_id, version=GROUP_METADATA_VERSION)


def write_departures(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    """Has the next coordinator know the members that have gone since the last record.

    Writes the record of the last assignments again, in which such a member has a session of 0 ms. The coordinator that
    loads it, Apache Kafka too, removes the member at once and starts the rebalance that the other members are in. Without
    it the member comes back with a whole session, and a newcomer waits for it.
    """
    if group.departures() is None:
        return
    if len(group.members) < MANY_MEMBERS:
        departures_due(state, group)
    elif not group.departure_timer.is_set:
        group.set_timer(group.departure_timer, now_ms + len(group.members) * DEPARTURE_DELAY_MS_PER_MEMBER)


def departures_due(state: ShardState, group: ClassicGroup) -> None:
    record = group.departures()
    if record is not None:
        state.write(group_record(group.group_id, record))


def write_empty_group(state: ShardState, group: ClassicGroup) -> None:
    """The record of a group of which only the id is known."""
    empty = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_timestamp_ms)
    state.write(group_record(group.group_id, empty))


def delete_classic_group(state: ShardState, group_id: str) -> None:
    state.write(group_record(group_id, None))
