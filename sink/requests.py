"""Requests of a transactional producer that are no records: ids, ends, and the commits of the ledger.

They are those of a producer before KIP-890, which every broker takes: each transaction has an epoch of its own here, so a
late end of an earlier one cannot meet it. A request that gets no response is sent again, since each may be sent twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ..admin.errors import NoResponse, RequestFailed, ResponseError, UnknownNode, check
from ..admin.places import Place
from ..admin.session import GROUP, TRANSACTION, Admin
from ..client.errors import LoginRejected
from ..client.versions import Bounds
from ..protocol.errors import ErrorCode
from ..protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ..protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ..protocol.messages.end_txn import EndTxnRequest
from ..protocol.messages.init_producer_id import InitProducerIdRequest
from ..protocol.messages.list_transactions import ListTransactionsRequest
from ..protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ..protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from .ledger import Ledger, decoded, piece_count

T = TypeVar("T")
#: Versions of a producer before KIP-890, part 2.
_INIT, _ADD, _ADD_OFFSETS, _COMMIT_OFFSETS, _END = Bounds(0, 5), Bounds(0, 3), Bounds(0, 3), Bounds(0, 4), Bounds(0, 4)
#: Topics by name.
_FETCH_OFFSETS = Bounds(7, 9)
_PATIENCE_S, _PAUSE_S = 60.0, 0.05
_PASSING = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
    )
)  # fmt: skip
#: The transaction is not open any more: it was ended otherwise, or its producer is another one.
_NOT_OPEN = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    )
)  # fmt: skip


class NotOpen(Exception):
    """A transaction that cannot be ended so: it had been ended otherwise, by its time-out or by another producer."""


def may_pass(error: RequestFailed) -> bool:
    if isinstance(error, ResponseError):
        return error.code in _PASSING
    return isinstance(error, NoResponse | UnknownNode) and not isinstance(error, LoginRejected)


def _patiently(admin: Admin, step: Callable[[], T]) -> T:
    return admin.patiently(step, may_pass, patience_s=_PATIENCE_S, pause_s=_PAUSE_S)


def take_id(admin: Admin, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
    """The producer id and epoch of a transactional id; a transaction that it had open is aborted before (KIP-98)."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

    def step() -> tuple[int, int]:
        response = admin.ask(request, admin.coordinator(transactional_id, TRANSACTION), _INIT)
        check(f"transaction {transactional_id}", response.error_code)
        return response.producer_id, response.producer_epoch

    return _patiently(admin, step)


def add_partitions(admin: Admin, transactional_id: str, producer: tuple[int, int], places: Iterable[Place]) -> None:
    """Makes partitions part of a transaction, which begins with the first."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        by_topic[topic].append(partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name, indexes) for name, indexes in by_topic.items()],
    )

    def step() -> None:
        response = admin.ask(request, admin.coordinator(transactional_id, TRANSACTION), _ADD)
        results = [
            (topic.name, one.partition_index, one.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]
        # Those of partitions that are at fault come before those that were not tried for their sake.
        results.sort(key=lambda one: one[2] == ErrorCode.OPERATION_NOT_ATTEMPTED)
        for topic, partition, code in results:
            check(f"{topic}-{partition} in transaction {transactional_id}", code)

    _patiently(admin, step)


def end(admin: Admin, transactional_id: str, producer: tuple[int, int], *, commits: bool) -> None:
    """Commits or aborts a transaction of any process's producer. Raises NotOpen; an end that was made is made again."""
    request = EndTxnRequest(transactional_id, producer[0], producer[1], commits)

    def step() -> None:
        response = admin.ask(request, admin.coordinator(transactional_id, TRANSACTION), _END)
        check(f"transaction {transactional_id}", response.error_code)

    try:
        _patiently(admin, step)
    except ResponseError as error:
        if error.code in _NOT_OPEN:
            raise NotOpen(str(error)) from None
        raise


def commit_ledger(
    admin: Admin, name: str, place: Place, producer: tuple[int, int], transactional_id: str, ledger: Ledger
) -> None:
    """Commits a ledger in a transaction of the producer. Raises NotOpen where another producer has taken its id."""
    topic, partition = place
    for index, piece in enumerate(ledger.encoded()):
        group = group_of(name, index)
        add = AddOffsetsToTxnRequest(transactional_id, producer[0], producer[1], group)
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=ledger.batch, committed_metadata=piece
        )
        commit = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        )

        def step(
            add: AddOffsetsToTxnRequest = add, commit: TxnOffsetCommitRequest = commit, group: str = group
        ) -> None:
            added = admin.ask(add, admin.coordinator(transactional_id, TRANSACTION), _ADD_OFFSETS)
            check(f"group {group} in transaction {transactional_id}", added.error_code)
            response = admin.ask(commit, admin.coordinator(group, GROUP), _COMMIT_OFFSETS)
            for one in (each for found in response.topics for each in found.partitions):
                check(f"the commit of group {group} for {topic}-{one.partition_index}", one.error_code)

        try:
            _patiently(admin, step)
        except ResponseError as error:
            if error.code in _NOT_OPEN:
                raise NotOpen(str(error)) from None
            raise
    end(admin, transactional_id, producer, commits=True)


def read_ledger(admin: Admin, name: str, place: Place) -> Ledger:
    """The ledger of the last transaction that was committed; waits for one whose end is not written yet.

    Raises DamagedLedger.
    """
    found = _committed(admin, group_of(name, 0), place)
    if found is None:
        return Ledger()
    batch, first = found
    pieces = [first]
    for index in range(1, piece_count(first)):
        piece = _committed(admin, group_of(name, index), place)
        pieces.append("" if piece is None else piece[1])
    return decoded(batch, pieces)


def group_of(name: str, piece: int) -> str:
    return f"{name}.{piece}" if piece else name


def _committed(admin: Admin, group: str, place: Place) -> tuple[int, str] | None:
    """The offset of a group for a partition, and the text beside it; None without a commit."""
    topic, partition = place
    request = OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(topic, [partition])],
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[OffsetFetchRequestTopics(topic, b"", [partition])])],
        require_stable=True,
    )

    def step() -> tuple[int, str] | None:
        response = admin.ask(request, admin.coordinator(group, GROUP), _FETCH_OFFSETS)
        answered = response.groups[0] if response.groups else response
        check(f"group {group}", answered.error_code)
        for one in (each for found in answered.topics for each in found.partitions):
            check(f"group {group} for {topic}-{partition}", one.error_code)
            if one.committed_offset >= 0:
                return one.committed_offset, one.metadata or ""
        return None

    return _patiently(admin, step)


def open_ids(admin: Admin, prefix: str, nodes: Sequence[int]) -> list[str]:
    """Transactional ids of open transactions that begin with the prefix (KIP-664). Brokers before 3.0 do not list any."""
    request = ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[])
    found: set[str] = set()
    for node in nodes:
        try:
            response = admin.ask(request, node)
        except RequestFailed:
            continue  # one that is down coordinates none
        if not response.error_code:
            found.update(one.transactional_id for one in response.transaction_states)
    return sorted(name for name in found if name.startswith(prefix))
