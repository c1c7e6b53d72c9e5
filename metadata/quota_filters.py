"""Filters of DescribeClientQuotas (KIP-546). `describe` scans all quotas and so yields between steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .client_quotas import ENTITY_TYPES, IP

if TYPE_CHECKING:
    from .image import MetadataImage, QuotaEntity

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
