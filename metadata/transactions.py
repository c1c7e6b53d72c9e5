"""Transactions of metadata records (KIP-868): records between Begin and End take effect together, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..protocol.internal.cluster_metadata import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

if TYPE_CHECKING:
    from ..protocol.schema import Message


class MetadataTransactions:
    """A stage between the log and a delta: holds back the records of a transaction until it ends."""

    def __init__(self) -> None:
        self._held: list[Message] | None = None

    @property
    def is_open(self) -> bool:
        return self._held is not None

    def take(self, record: Message) -> Sequence[Message]:
        """Takes the next record of the log. Returns the records to replay now."""
        if isinstance(record, BeginTransactionRecord):
            assert self._held is None, "a transaction of metadata begins inside another"
            self._held = []
            return ()
        if isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            held, self._held = self._held, None
            assert held is not None, "a transaction of metadata ends that has not begun"
            return held if isinstance(record, EndTransactionRecord) else ()
        if self._held is None:
            return (record,)
        self._held.append(record)
        return ()
