"""Client quotas: which entities and keys there are, which values they take, and which entities a filter matches (KIP-546).

An entity names a user, a client id or both, or an IP address; None as a name is the default. `describe` scans all quotas
and so yields between steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .image import MetadataImage, QuotaEntity

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


# ---- filters

EXACT, DEFAULT, ANY = range(3)


class Component(NamedTuple):
    """A part of a filter: entities with this `kind` and with `name` (EXACT), the default (DEFAULT) or any name (ANY)."""

    kind: str
    match_type: int
    name: str | None


class InvalidFilter(Exception):
    """A filter that Kafka refuses. `is_unsupported`: by UNSUPPORTED_VERSION in place of INVALID_REQUEST."""

    def __init__(self, words: str, *, is_unsupported: bool = False) -> None:
        super().__init__(words)
        self.is_unsupported = is_unsupported


class QuotaFilter:
    """A filter of DescribeClientQuotas. Raises InvalidFilter.

    `strict`: only entities with exactly the kinds of the filter match.
    """

    def __init__(self, components: Sequence[Component], *, strict: bool) -> None:
        self._components = components
        self._strict = strict
        seen: set[str] = set()
        for one in components:
            _check(one, seen)
            seen.add(one.kind)
        if IP in seen and len(seen) > 1:
            raise InvalidFilter(
                "Invalid entity filter component combination. IP filter component should not be used with user or "
                "clientId filter component."
            )

    def matches(self, entity: QuotaEntity) -> bool:
        names = dict(entity)
        if self._strict and len(names) != len(self._components):
            return False
        return all(
            one.kind in names and (one.match_type == ANY or names[one.kind] == one.name) for one in self._components
        )


def _check(component: Component, seen: set[str]) -> None:
    kind, match_type, name = component
    if not kind:
        raise InvalidFilter("Invalid empty entity type.")
    if kind in seen:
        raise InvalidFilter(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in ENTITY_TYPES:
        raise InvalidFilter(f"Unsupported entity type {kind}", is_unsupported=True)
    if match_type == EXACT:
        if name is None:
            raise InvalidFilter("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif match_type in (DEFAULT, ANY):
        if name is not None:
            word = "DEFAULT" if match_type == DEFAULT else "SPECIFIED"
            raise InvalidFilter(f"Request specified MATCH_TYPE_{word}, but also specified a match string.")
    else:
        raise InvalidFilter(f"Unknown match type {match_type}")


def describe(image: MetadataImage, wanted: QuotaFilter) -> Iterator[tuple[QuotaEntity, Mapping[str, float]] | None]:
    """Yields the entities that match, with their quotas, and None for each that does not."""
    for entity, quotas in image.client_quotas.items():
        yield (entity, quotas) if wanted.matches(entity) else None
