"""The invariants of the transaction simulation: of decisions, expirations, logs, and the final state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.coordinator.transaction import NOT_IN_TRANSACTION, PREPARED, TransactionStatus
from odradek.coordinator.transaction_records import decode_record
from odradek.coordinator.transaction_requests import SendMarkers
from odradek.coordinator.transaction_shard import TransactionShard
from odradek.protocol.internal.transaction_state import TransactionLogKey, TransactionLogValue

from tests.coordinator.group_logs import LogRecord
from tests.coordinator.transaction_calls import Tag
from tests.coordinator.transaction_leaders import Leader, OffsetsLeader
from tests.coordinator.transaction_producers import GROUPS


def check_decided(markers: SendMarkers, committed: Sequence[LogRecord]) -> None:
    """Checks that a marker is sent only after its decision is committed."""
    value = _last_value(markers.transactional_id, committed)
    wanted = TransactionStatus.PREPARE_COMMIT if markers.committed else TransactionStatus.PREPARE_ABORT
    assert value is not None and value.transaction_status == wanted, f"{markers} was not decided"


def check_expired(transactional_id: str, log: Sequence[LogRecord], oldest: int) -> None:
    """Checks that an expired transactional id was unused for long enough."""
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
    """Checks that a reload of the log gives the same state, and the pending markers of decided ends."""
    ours, theirs = shard.state.transactions, loaded.state.transactions
    assert ours.keys() == theirs.keys()
    for name, transaction in ours.items():
        assert theirs[name].durable == transaction.durable, f"{name} differs from its log"
    planned = {reply.transactional_id for reply in loaded.take().replies if isinstance(reply, SendMarkers)}
    assert planned == {name for name, one in ours.items() if one.state in PREPARED}


def check_end(shard: TransactionShard, leaders: Iterable[Leader], reported: dict[Tag, bool]) -> None:
    """Checks at the end that each transaction ended alike everywhere, as reported to its producer."""
    for transaction in shard.state.transactions.values():
        assert transaction.state in NOT_IN_TRANSACTION, f"{transaction.transactional_id} is {transaction.state.shown}"
    ends: dict[Tag, set[bool]] = {}
    for leader in leaders:
        assert not any(leader.open.values()), f"{leader.place} has a hanging transaction: {leader.open}"
        for tag, found in leader.ended.items():
            ends.setdefault(tag, set()).update(found)
        if isinstance(leader, OffsetsLeader):
            hanging = [group for group in GROUPS if leader.shard.state.offsets.has_pending(group)]
            assert not hanging, f"{hanging} have offsets that stay pending"
    for tag, found in ends.items():
        assert len(found) == 1, f"{tag} is committed in one place and aborted in another"
        assert reported.get(tag, *found) in found, f"{tag} was reported as {reported[tag]} but is {found}"
