"""Client quotas: which entities and keys there are, and which values they take (KIP-546).

An entity names a user, a client id or both, or an IP address; None as a name is the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

#: The largest whole number that a key takes, with Kafka's name of its type; None for a key that takes fractions.
_USER_AND_CLIENT_KEYS: dict[str, tuple[int, str] | None] = {
    PRODUCER_BYTE_RATE: (2**63 - 1, "a LONG"),
    CONSUMER_BYTE_RATE: (2**63 - 1, "a LONG"),
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_IP_KEYS: dict[str, tuple[int, str] | None] = {CONNECTION_CREATION_RATE: (2**31 - 1, "an INT")}
#: A value may differ from a whole number by so much.
_WHOLE = 1e-6
#: An address or the name of a host. Whether a name resolves is for the broker to find out, which may wait for it.
_HOST = re.compile(r"[0-9A-Za-z_.:%-]{1,255}")


def no_valid_host(name: str | None) -> str:
    return f"{name} is not a valid IP or resolvable host."


def entity_error(entity: Mapping[str, str | None]) -> str | None:
    """Returns Kafka's words for what is wrong with an entity of a change, or None. All are INVALID_REQUEST."""
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP not in entity:
        return None
    if len(entity) > 1:
        return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    host = entity[IP]
    return no_valid_host(host) if host is not None and _HOST.fullmatch(host) is None else None


def value_error(entity: Mapping[str, str | None], key: str, value: float) -> str | None:
    """Returns Kafka's words for what is wrong with a value of a valid entity, or None. All are INVALID_REQUEST."""
    keys = _IP_KEYS if IP in entity else _USER_AND_CLIENT_KEYS
    if key not in keys:
        return f"Invalid configuration key {key}"
    if not value > 0:  # nor is NaN
        return f"Quota {key} must be greater than 0"
    whole = keys[key]
    if whole is None:
        return None
    largest, kind = whole
    if value > largest:
        return f"Proposed value for {key} is too large for {kind}."
    return f"{key} cannot be a fractional value." if value % 1.0 > _WHOLE else None
