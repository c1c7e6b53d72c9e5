"""The place of requests to the coordinators of transactions. Its import is that of their shards and of what they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...protocol.schema import Message
from ..network.api_endpoint import Place
from ..network.call import Call
from . import group_coordinator, transaction_driver

if TYPE_CHECKING:
    from .subsystem import CoordinatorsSubsystem

#: Imported with this file, on a thread: the event loop imports none of it later.
PRELOADED = (*group_coordinator.PRELOADED, transaction_driver)


class TransactionServices(Protocol):
    """The parts of a broker that these handlers use."""

    @property
    def coordinators(self) -> CoordinatorsSubsystem: ...


def to_coordinator(services: TransactionServices, call: Call) -> Message | None:
    """Has the coordinator of the transactional id answer."""
    services.coordinators.transactions().submit(
        call.request.transactional_id, call.request, call.version, call, call.reply
    )
    return None


TRANSACTION_COORDINATOR = Place("the coordinator of the id in `transactional_id`", to_coordinator)
#: For requests about several transactional ids, which may be of different shards.
TRANSACTION_COORDINATORS = Place("the coordinators of transactions on the node that takes the request")
