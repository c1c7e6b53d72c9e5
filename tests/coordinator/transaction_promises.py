"""What producers are told, and what must stay true of it: checked as it is decided, and as it is told."""

from __future__ import annotations

from typing import Any

from odradek.coordinator.common.result import Record
from odradek.coordinator.transactions import transaction
from odradek.coordinator.transactions.shard import TransactionShard
from odradek.coordinator.transactions.transaction import NO_PRODUCER_ID, PREPARED, State, Transaction
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

from tests.coordinator.transaction_calls import Call, Producer, error_of
from tests.coordinator.transaction_producers import FENCED, Client

NOBODY: Producer = (-1, -1)
#: The first version of EndTxn that gives the next epoch.
_BUMPS = 5


class Promises:
    def __init__(self) -> None:
        #: Counts what happens, so that one can say what was first.
        self.event = 0
        #: Who was given a producer id and epoch. Nobody else is.
        self.given: dict[Producer, Client] = {}
        #: By transactional id: the last that was told; the last by which others were fenced; what the coordinator has.
        self.told: dict[str, Producer] = {}
        self.fences: dict[str, Producer] = {}
        self.seen: dict[str, Producer] = {}
        #: How an end was answered, and an InitProducerId that named what it had: a repetition is answered likewise.
        self.ends: dict[Producer, tuple[bool, Producer]] = {}
        self.goes_on: dict[Producer, tuple[Producer, int]] = {}
        #: When ids were forgotten last: whoever names what it had begins anew.
        self.expired: dict[str, int] = {}
        #: When it last happened that a producer of that id has to give up, and since when each has what it has.
        self.reasons: dict[str, int] = {}
        self.since: dict[Client, int] = {}
        self.rotations = self.repetitions = self.recoveries = self.expiries = self.timeouts = 0

    # What the coordinator decides.

    def has_decided(self, request: Any, response: Any) -> None:
        """Nobody who was fenced, and heard of it or could have, gets anything done."""
        if isinstance(request, InitProducerIdRequest) or error_of(response):
            return
        transactional_id, producer = named(request)
        fence = self.fences.get(transactional_id, NOBODY)
        assert producer >= fence, f"{transactional_id}: {producer} is accepted, though {fence} was begun"

    def may_write(self, transactional_id: str, producer: Producer) -> None:
        fence = self.fences.get(transactional_id, NOBODY)
        assert producer >= fence, f"{transactional_id}: {producer} writes, though {fence} was begun"

    def has_reason(self, transactional_id: str) -> None:
        self.reasons[transactional_id] = self.event

    def time_passed(self, records: list[Record], now: int, timeout_ms: int) -> None:
        """What the coordinator did by itself was due."""
        for record in records:
            name, value = record.key.transactional_id, record.value  # type: ignore[attr-defined]
            self.has_reason(name)
            if value is None:
                self.expiries += 1
                self.expired[name] = self.event
            elif value.transaction_status == State.PREPARE_ABORT:  # type: ignore[attr-defined]
                self.timeouts += 1
                assert value.transaction_start_timestamp_ms + timeout_ms < now  # type: ignore[attr-defined]

    # What producers are told.

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
        if asked != NOBODY:
            self.recoveries += 1
            known, since = self.goes_on.setdefault(asked, (given, decided))
            is_forgotten = self.expired.get(name, -1) > since
            assert known == given or is_forgotten, f"{asked} goes on as {known} and as {given}"
            assert given[1] == (asked[1] + 1 if given[0] == asked[0] else 0), f"{asked} goes on as {given}"
        self._gives(call.client, given)
        self.fences[name] = max(self.fences.get(name, NOBODY), given)

    def _tells_of_end(self, call: Call, request: EndTxnRequest, given: Producer) -> None:
        asked = (request.producer_id, request.producer_epoch)
        self.repetitions += asked in self.ends
        self.rotations += given[0] != asked[0] and asked not in self.ends
        known = self.ends.setdefault(asked, (request.committed, given))
        assert known == (request.committed, given), f"{asked} is told {known}, and {(request.committed, given)}"
        self._gives(call.client, given)

    def _gives(self, client: Client, given: Producer) -> None:
        owner = self.given.setdefault(given, client)
        assert owner is client, f"{given} is {owner.name}'s, and {client.name} is told to have it"
        assert given[1] < transaction.MAX_EPOCH, f"the last epoch of {given} is for fencing"
        name = client.transactional_id
        self.told[name] = max(self.told.get(name, NOBODY), given)

    def hears(self, client: Client, response: Any, decided: int) -> None:
        """Whoever is told that he has lost his id has lost it."""
        error = error_of(response)
        if not error and isinstance(response, (InitProducerIdResponse, EndTxnResponse)):
            self.since[client] = decided
        ends_badly = isinstance(response, EndTxnResponse) and error == ErrorCode.INVALID_TXN_STATE
        if error not in FENCED and not ends_badly:
            return
        last = self.reasons.get(client.transactional_id, -1)
        why = ErrorCode(error).name
        assert last > self.since.get(client, -1), f"{client.name} is told {why}, and nothing has come between"

    # What the coordinator has.

    def check(self, shard: TransactionShard) -> None:
        """Epochs never go back, and are at least what anybody was told."""
        for name, found in shard.state.transactions.items():
            have = _last_of(found)
            assert have >= self.seen.get(name, NOBODY), f"{name} went back from {self.seen[name]} to {have}"
            assert have >= self.told.get(name, NOBODY), f"{name} is {have}, and was told {self.told[name]}"
            self.seen[name] = have
            assert found.state not in PREPARED or found.unwritten or not found.places, f"{name} waits for nothing"

    def crashed(self) -> None:
        """What was not committed may be lost, and with it who has what."""
        self.seen = dict(self.told)


def _last_of(found: Transaction) -> Producer:
    """With an end at the last epoch the next id is given, which is that of the transaction once it is through."""
    durable = found.durable
    if durable.next_producer_id != NO_PRODUCER_ID:
        return durable.next_producer_id, 0
    return found.producer_id, found.producer_epoch


def named(request: Any) -> tuple[str, Producer]:
    """The transactional id of a request, and the producer that it names."""
    if isinstance(request, AddPartitionsToTxnRequest):
        for one in request.transactions:
            return one.transactional_id, (one.producer_id, one.producer_epoch)
        producer = (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        return request.v3_and_below_transactional_id, producer
    return request.transactional_id, (request.producer_id, request.producer_epoch)
