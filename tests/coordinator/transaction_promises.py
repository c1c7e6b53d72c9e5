"""The responses to producers and their guarantees, checked at the decision and at the response."""

from __future__ import annotations

from typing import Any

from odradek.coordinator import transaction
from odradek.coordinator.result import Record
from odradek.coordinator.transaction import PREPARED, Transaction, TransactionStatus
from odradek.coordinator.transaction_shard import TransactionShard
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.records.batch import NO_PRODUCER_ID

from tests.coordinator.transaction_calls import Call, Producer, error_of
from tests.coordinator.transaction_producers import FENCED, Client

NO_PRODUCER: Producer = (-1, -1)
#: The first version of EndTxn that gives the next epoch.
_BUMPS = 5


class Promises:
    def __init__(self) -> None:
        #: The number of events, for their order.
        self.event = 0
        #: The only owner of each producer id and epoch.
        self.given: dict[Producer, Client] = {}
        #: By transactional id, a producer: the last in a response, the last that fenced others, the coordinator's current.
        self.reported: dict[str, Producer] = {}
        self.fences: dict[str, Producer] = {}
        self.seen: dict[str, Producer] = {}
        #: The responses to ends, and to InitProducerId with an id and epoch: a retry gets the same response.
        self.ends: dict[Producer, tuple[bool, Producer]] = {}
        self.goes_on: dict[Producer, tuple[Producer, int]] = {}
        #: The last expiration of each id: a producer with an earlier id and epoch starts over.
        self.expired: dict[str, int] = {}
        #: The last event that fences producers of an id, and the event of each client's current id and epoch.
        self.reasons: dict[str, int] = {}
        self.since: dict[Client, int] = {}
        self.rotations = self.repetitions = self.recoveries = self.expiries = self.timeouts = 0

    # Decisions of the coordinator.

    def has_decided(self, request: Any, response: Any) -> None:
        """Checks that no request of a fenced producer succeeds."""
        if isinstance(request, InitProducerIdRequest) or error_of(response):
            return
        transactional_id, producer = named(request)
        fence = self.fences.get(transactional_id, NO_PRODUCER)
        assert producer >= fence, f"{transactional_id}: {producer} is accepted, although {fence} fences it"

    def may_write(self, transactional_id: str, producer: Producer) -> None:
        fence = self.fences.get(transactional_id, NO_PRODUCER)
        assert producer >= fence, f"{transactional_id}: {producer} writes, although {fence} fences it"

    def has_reason(self, transactional_id: str) -> None:
        self.reasons[transactional_id] = self.event

    def time_passed(self, records: list[Record], now: int, timeout_ms: int) -> None:
        """Checks that the coordinator's own actions were due."""
        for record in records:
            name, value = record.key.transactional_id, record.value  # type: ignore[attr-defined]
            self.has_reason(name)
            if value is None:
                self.expiries += 1
                self.expired[name] = self.event
            elif value.transaction_status == TransactionStatus.PREPARE_ABORT:  # type: ignore[attr-defined]
                self.timeouts += 1
                assert value.transaction_start_timestamp_ms + timeout_ms < now  # type: ignore[attr-defined]

    # Responses to producers.

    def tells(self, call: Call, response: Any, decided: int) -> None:
        request = call.request
        if error_of(response):
            return
        if isinstance(request, InitProducerIdRequest):
            self._tells_of_begin(call, request, (response.producer_id, response.producer_epoch), decided)
        elif isinstance(request, EndTxnRequest) and call.version >= _BUMPS:
            self._tells_of_end(call, request, (response.producer_id, response.producer_epoch))

    def _tells_of_begin(self, call: Call, request: InitProducerIdRequest, given: Producer, decided: int) -> None:
        asked = (request.producer_id, request.producer_epoch)
        name = call.client.transactional_id
        if asked != NO_PRODUCER:
            self.recoveries += 1
            known, since = self.goes_on.setdefault(asked, (given, decided))
            is_forgotten = self.expired.get(name, -1) > since
            assert known == given or is_forgotten, f"{asked} continues as {known} and as {given}"
            assert given[1] == (asked[1] + 1 if given[0] == asked[0] else 0), f"{asked} continues as {given}"
        self._gives(call.client, given)
        self.fences[name] = max(self.fences.get(name, NO_PRODUCER), given)

    def _tells_of_end(self, call: Call, request: EndTxnRequest, given: Producer) -> None:
        asked = (request.producer_id, request.producer_epoch)
        self.repetitions += asked in self.ends
        self.rotations += given[0] != asked[0] and asked not in self.ends
        known = self.ends.setdefault(asked, (request.committed, given))
        assert known == (request.committed, given), f"{asked} gets {known}, and {(request.committed, given)}"
        self._gives(call.client, given)

    def _gives(self, client: Client, given: Producer) -> None:
        owner = self.given.setdefault(given, client)
        assert owner is client, f"{given} belongs to {owner.name}, but {client.name} gets it"
        assert given[1] < transaction.MAX_EPOCH, f"the last epoch of {given} is for fencing"
        name = client.transactional_id
        self.reported[name] = max(self.reported.get(name, NO_PRODUCER), given)

    def hears(self, client: Client, response: Any, decided: int) -> None:
        """Checks that a producer gets a fencing error only after it was fenced."""
        error = error_of(response)
        if not error and isinstance(response, (InitProducerIdResponse, EndTxnResponse)):
            self.since[client] = decided
        ends_badly = isinstance(response, EndTxnResponse) and error == ErrorCode.INVALID_TXN_STATE
        if error not in FENCED and not ends_badly:
            return
        last = self.reasons.get(client.transactional_id, -1)
        why = ErrorCode(error).name
        assert last > self.since.get(client, -1), f"{client.name} gets {why} without a reason"

    # State of the coordinator.

    def check(self, shard: TransactionShard) -> None:
        """Checks that epochs never decrease, and are not lower than in any response."""
        for name, found in shard.state.transactions.items():
            have = _last_of(found)
            assert have >= self.seen.get(name, NO_PRODUCER), f"{name} decreased from {self.seen[name]} to {have}"
            assert have >= self.reported.get(name, NO_PRODUCER), f"{name} is {have}, not {self.reported[name]}"
            self.seen[name] = have
            assert found.state not in PREPARED or found.unwritten or not found.partitions, (
                f"{name} has no marker to wait for"
            )

    def crashed(self) -> None:
        """Resets the state after a crash, which may have lost uncommitted records."""
        self.seen = dict(self.reported)


def _last_of(found: Transaction) -> Producer:
    """Returns the current producer id and epoch: the next id after an end at the last epoch, before it completes."""
    durable = found.durable
    if durable.next_producer_id != NO_PRODUCER_ID:
        return durable.next_producer_id, 0
    return found.producer_id, found.producer_epoch


def named(request: Any) -> tuple[str, Producer]:
    """Returns the transactional id and the producer of a request."""
    if isinstance(request, AddPartitionsToTxnRequest):
        for one in request.transactions:
            return one.transactional_id, (one.producer_id, one.producer_epoch)
        producer = (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        return request.v3_and_below_transactional_id, producer
    return request.transactional_id, (request.producer_id, request.producer_epoch)
