"""The remote stores of a process, opened once each."""

from __future__ import annotations

from functools import lru_cache

from ..tiers.named_store import make_store
from ..tiers.store import InvalidStore, RemoteStore
from .errors import InvalidScan

_MOST_STORES = 4


def open_store(class_name: str, keys: dict[str, str]) -> RemoteStore:
    """The store of these settings, one for each process. Raises InvalidScan."""
    return _opened(class_name, tuple(sorted(keys.items())))


@lru_cache(_MOST_STORES)
def _opened(class_name: str, keys: tuple[tuple[str, str], ...]) -> RemoteStore:
    try:
        return make_store(class_name, dict(keys))
    except InvalidStore as error:
        raise InvalidScan(f"the remote store cannot be opened: {error}") from None
