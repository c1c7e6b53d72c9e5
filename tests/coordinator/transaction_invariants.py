"""What must hold in the simulation of transactions: of decisions, of what is forgotten, of logs, and at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.coordinator.transactions.records import decode_record
from odradek.coordinator.transactions.result import SendMarkers
from odradek.coordinator.transactions.shard import TransactionShard
from odradek.coordinator.transactions.transaction import NOT_IN_TRANSACTION, PREPARED, State
from odradek.protocol.internal.transaction_state import TransactionLogKey, TransactionLogValue

from tests.coordinator.group_logs import LogRecord
from tests.coordinator.transaction_calls import Tag
from tests.coordinator.transaction_leaders import Leader, OffsetsLeader
from tests.coordinator.transaction_producers import GROUPS


def check_decided(markers: SendMarkers, committed: Sequence[LogRecord]) -> None:
    """A marker is sent only if no crash can take back the decision for it."""
    value = _last_value(markers.transactional_id, committed)
    wanted = State.PREPARE_COMMIT if markers.committed else State.PREPARE_ABORT
    assert value is not None and value.transaction_status == wanted, f"{markers} was not decided"


def check_expired(transactional_id: str, log: Sequence[LogRecord], oldest: int) -> None:
    """What is forgotten had rested for long."""
    value = _last_value(transactional_id, log)
    assert value is not None and value.transaction_status in NOT_IN_TRANSACTION, (
        f"{transactional_id} is in a transaction"
    )
    assert value.transaction_last_update_timestamp_ms <= oldest


def _last_value(transactional_id: str, log: Sequence[LogRecord]) -> TransactionLogValue | None:
    for record in (decode_record(key, value) for key, value in reversed(log)):
        assert isinstance(record.key, TransactionLogKey)
        if record.key.transactional_id == transactional_id:
            assert record.value is None or isinstance(record.value, TransactionLogValue)
            return record.value
    return None


def check_same(shard: TransactionShard, loaded: TransactionShard) -> None:
    """Whoever loads the log has what there is, and goes on with the markers of what was decided."""
    ours, theirs = shard.state.transactions, loaded.state.transactions
    assert ours.keys() == theirs.keys()
    for name, transaction in ours.items():
        assert theirs[name].durable == transaction.durable, f"{name} is not what its log says"
    planned = {reply.transactional_id for reply in loaded.take().replies if isinstance(reply, SendMarkers)}
    assert planned == {name for name, one in ours.items() if one.state in PREPARED}


def check_end(shard: TransactionShard, leaders: Iterable[Leader], told: dict[Tag, bool]) -> None:
    """When everything is at rest: all of a transaction has come to the same end, the one that its producer was told."""
    for transaction in shard.state.transactions.values():
        assert transaction.state in NOT_IN_TRANSACTION, f"{transaction.transactional_id} is {transaction.state.shown}"
    ends: dict[Tag, set[bool]] = {}
    for leader in leaders:
        assert not any(leader.open.values()), f"{leader.place} has a transaction that hangs: {leader.open}"
        for tag, found in leader.ended.items():
            ends.setdefault(tag, set()).update(found)
        if isinstance(leader, OffsetsLeader):
            hanging = [group for group in GROUPS if leader.shard.state.offsets.has_pending(group)]
            assert not hanging, f"{hanging} have offsets that are pending for good"
    for tag, found in ends.items():
        assert len(found) == 1, f"{tag} is committed in one place and aborted in another"
        assert told.get(tag, *found) in found, f"{tag} was told {told[tag]} and is {found}"
