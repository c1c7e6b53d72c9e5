"""The place of requests to the coordinators of transactions. Its import is that of their shards and of what they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, Union

from ..network.api_endpoint import Place
from ..network.call import Call
from . import group_coordinator, transaction_driver

if TYPE_CHECKING:
    from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
    from ...protocol.messages.end_txn import EndTxnRequest
    from ...protocol.messages.init_producer_id import InitProducerIdRequest
    from ...protocol.schema import Request
    from .subsystem import CoordinatorsSubsystem

    #: A request about one transactional id.
    RequestAboutTransaction: TypeAlias = Union[AddOffsetsToTxnRequest, EndTxnRequest, InitProducerIdRequest]

#: Imported with this file, on a thread: the event loop imports none of it later.
PRELOADED = (*group_coordinator.PRELOADED, transaction_driver)


class TransactionServices(Protocol):
    """The parts of a broker that these handlers use."""

    @property
    def coordinators(self) -> CoordinatorsSubsystem: ...


def to_coordinator(services: TransactionServices, call: Call[RequestAboutTransaction]) -> None:
    """Has the coordinator of the transactional id answer."""
    transactional_id = call.request.transactional_id
    assert transactional_id is not None, "InitProducerId without an id is answered where it arrives"
    services.coordinators.transactions().submit(transactional_id, call.request, call.version, call, call.reply)


TRANSACTION_COORDINATOR: Place[RequestAboutTransaction] = Place(
    "the coordinator of the id in `transactional_id`", to_coordinator
)
#: For requests about several transactional ids, which may be of different shards.
TRANSACTION_COORDINATORS: Place[Request] = Place("the coordinators of transactions on the node that takes the request")
