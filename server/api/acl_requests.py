"""A check of requests about access rules that Kafka makes while it decodes them."""

from __future__ import annotations

from ..network.call import Call, ProtocolViolation

#: Kafka's code of what a client cannot name: of resource types, pattern types, operations and permissions.
UNKNOWN = 0


def check_named(call: Call, *codes: int) -> None:
    """Raises ProtocolViolation if a code is UNKNOWN: Kafka closes the connection. An undefined code is an error of
    the item.
    """
    if UNKNOWN in codes:
        raise ProtocolViolation(f"{call.api.name} request with an element of type UNKNOWN")
