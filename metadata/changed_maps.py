"""Persistent maps with changes applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from immutables import Map

K = TypeVar("K")
V = TypeVar("V")
Outer = TypeVar("Outer")

_EMPTY_MAP: Map[Any, Any] = Map()


def applied(old: Map[K, V], changes: Mapping[K, V | None]) -> Map[K, V]:
    if not changes:
        return old
    new = old.mutate()
    for key, value in changes.items():
        if value is not None:
            new[key] = value
        else:
            new.pop(key, None)
    return new.finish()


def applied_maps(old: Map[Outer, Map[K, V]], changes: Mapping[Outer, Mapping[K, V | None]]) -> Map[Outer, Map[K, V]]:
    """Returns a map of maps with the changes applied; empty inner maps are removed."""
    return applied(old, {key: applied(old.get(key, _EMPTY_MAP), changed) or None for key, changed in changes.items()})
