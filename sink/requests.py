"""Requests of a transactional producer that are no records: ids, ends, and the commits of the ledger.

They are those of a producer before KIP-890, which every broker takes: each transaction has an epoch of its own here, so a
late end of an earlier one cannot meet it. A request that gets no response is sent again, since each may be sent twice.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeVar

from ..admin.errors import NoResponse, RequestFailed, ResponseError, UnknownNode, check
from ..admin.nodes import describe_cluster
from ..admin.places import Place
from ..admin.session import Admin
from ..client.errors import LoginRejected
from ..client.versions import Bounds
from ..protocol.coordinator_types import GROUP, TRANSACTION
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
from .ledger import Ledger, decoded, group_of, piece_count, run_of

T = TypeVar("T")
#: Versions of a producer before KIP-890, part 2.
_INIT, _ADD, _ADD_OFFSETS, _COMMIT_OFFSETS, _END = Bounds(0, 5), Bounds(0, 3), Bounds(0, 3), Bounds(0, 4), Bounds(0, 4)
#: Topics by name.
_FETCH_OFFSETS = Bounds(7, 9)
PATIENCE_S, PAUSE_S = 60.0, 0.05
#: The transaction is not open any more: it was ended otherwise, or its producer is another one.
_NOT_OPEN = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    )
)  # fmt: skip


class NotOpen(RequestFailed):
    """A transaction is not open any more: it was ended otherwise, by its time-out, or by another producer of its id."""


def may_pass(error: RequestFailed) -> bool:
    """Returns whether the same request, sent again later, may have no error."""
    if isinstance(error, ResponseError):
        return error.code in ErrorCode.__members__.values() and ErrorCode(error.code).retriable
    return isinstance(error, NoResponse | UnknownNode) and not isinstance(error, LoginRejected)


def _patiently(
    admin: Admin,
    step: Callable[[], T],
    passes: Callable[[RequestFailed], bool] = may_pass,
    patience_s: float = PATIENCE_S,
) -> T:
    """Raises NotOpen for an error of a transaction that is not open any more."""
    try:
        return admin.patiently(step, passes, patience_s=patience_s, pause_s=PAUSE_S)
    except ResponseError as error:
        if error.code in _NOT_OPEN:
            raise NotOpen(str(error)) from None
        raise


def take_id(admin: Admin, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
    """The producer id and epoch of a transactional id; a transaction that it had open is aborted before (KIP-98)."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

    def step() -> tuple[int, int]:
        response = admin.ask(request, admin.coordinator_now(transactional_id, TRANSACTION), _INIT)
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
        response = admin.ask(request, admin.coordinator_now(transactional_id, TRANSACTION), _ADD)
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


def end(
    admin: Admin, transactional_id: str, producer: tuple[int, int], *, commits: bool, patience_s: float = PATIENCE_S
) -> None:
    """Commits or aborts a transaction of any process's producer. Raises NotOpen; an end that was made is made again."""
    request = EndTxnRequest(transactional_id, producer[0], producer[1], commits)

    def step() -> None:
        response = admin.ask(request, admin.coordinator_now(transactional_id, TRANSACTION), _END)
        check(f"transaction {transactional_id}", response.error_code)

    _patiently(admin, step, patience_s=patience_s)


def write_ledger(
    admin: Admin, name: str, place: Place, producer: tuple[int, int], transactional_id: str, ledger: Ledger
) -> None:
    """Makes a ledger part of a transaction of the producer, whose commit is the decision.

    Raises NotOpen where another producer has taken the id.
    """
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
            added = admin.ask(add, admin.coordinator_now(transactional_id, TRANSACTION), _ADD_OFFSETS)
            check(f"group {group} in transaction {transactional_id}", added.error_code)
            response = admin.ask(commit, admin.coordinator_now(group, GROUP), _COMMIT_OFFSETS)
            for one in (each for found in response.topics for each in found.partitions):
                check(f"the commit of group {group} for {topic}-{one.partition_index}", one.error_code)

        _patiently(admin, step)


def read_ledger(admin: Admin, name: str, place: Place, unstable_s: float = PATIENCE_S) -> Ledger:
    """The ledger of the last transaction that was committed.

    Waits for one whose end is not written yet, and then raises ResponseError. Raises DamagedLedger.
    """
    until = time.monotonic() + unstable_s

    def passes(error: RequestFailed) -> bool:
        return may_pass(error) and not (is_unstable(error) and time.monotonic() > until)

    found = _committed(admin, group_of(name, 0), place, passes)
    if found is None:
        return Ledger()
    batch, first = found
    pieces = [first]
    for index in range(1, piece_count(first)):
        piece = _committed(admin, group_of(name, index), place, passes)
        pieces.append("" if piece is None else piece[1])
    return decoded(batch, pieces)


def is_unstable(error: RequestFailed) -> bool:
    """Returns whether a ledger is part of a transaction that has not ended."""
    return isinstance(error, ResponseError) and error.code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def _committed(
    admin: Admin, group: str, place: Place, passes: Callable[[RequestFailed], bool]
) -> tuple[int, str] | None:
    """The offset of a group for a partition, and the text beside it; None without a commit."""
    topic, partition = place
    request = OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(topic, [partition])],
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[OffsetFetchRequestTopics(topic, b"", [partition])])],
        require_stable=True,
    )

    def step() -> tuple[int, str] | None:
        response = admin.ask(request, admin.coordinator_now(group, GROUP), _FETCH_OFFSETS)
        answered = response.groups[0] if response.groups else response
        check(f"group {group}", answered.error_code)
        for one in (each for found in answered.topics for each in found.partitions):
            check(f"group {group} for {topic}-{partition}", one.error_code)
            if one.committed_offset >= 0:
                return one.committed_offset, one.metadata or ""
        return None

    return _patiently(admin, step, passes)


def open_attempts(admin: Admin, ledger: str) -> dict[str, str]:
    """Transactional ids of a ledger's attempts whose transactions are open (KIP-664), with the runs of the attempts.

    Brokers before 3.0 do not list any.
    """
    request = ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[])
    runs: dict[str, str] = {}
    for node in describe_cluster(admin).running:
        try:
            response = admin.ask(request, node)
        except RequestFailed:
            continue  # one that is down coordinates none
        for listed in response.transaction_states if not response.error_code else ():
            if (run := run_of(listed.transactional_id, ledger)) is not None:
                runs[listed.transactional_id] = run
    return dict(sorted(runs.items()))
