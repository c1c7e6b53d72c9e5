"""The marker that ends a transaction in a partition (KIP-98)."""

from __future__ import annotations

from typing import NamedTuple


class Marker(NamedTuple):
    """The end of a producer's transaction, as its coordinator decided it. `transaction_version`: the client's version."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int
