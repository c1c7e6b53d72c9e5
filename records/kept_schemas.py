"""Parsed schemas of a registry, by id: each is parsed once, also where that fails, since an id never changes its schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from .schema_registry import Schema, SchemaRegistry

Parsed = TypeVar("Parsed")
Kept = TypeVar("Kept")
#: Parsed schemas that are kept: a topic of bytes that only look like values with schemas has many different ids.
_MOST_KEPT = 500


class KeptSchemas(Generic[Parsed]):
    def __init__(self, registry: SchemaRegistry, parse: Callable[[Schema], Parsed]) -> None:
        self._registry = registry
        self._parse = parse
        self._parsed: dict[int, Parsed] = {}
        self._failures: dict[int, Exception] = {}

    def get(self, schema_id: int) -> Parsed:
        """Raises what the parser raises, and UserError for a schema that the registry does not have or give now."""
        if schema_id in self._parsed:
            return self._parsed[schema_id]
        if schema_id in self._failures:
            raise self._failures[schema_id].with_traceback(None)
        schema = self._registry.schema(schema_id)
        try:
            made = self._parse(schema)
        except Exception as error:
            _keep(self._failures, schema_id, error)
            raise
        _keep(self._parsed, schema_id, made)
        return made


def _keep(kept: dict[int, Kept], schema_id: int, value: Kept) -> None:
    if len(kept) >= _MOST_KEPT:
        del kept[next(iter(kept))]
    kept[schema_id] = value
