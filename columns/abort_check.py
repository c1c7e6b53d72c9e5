"""Markers of aborted transactions that a reader meets, beside those that the plan has."""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from ..protocol.records.control import ControlType
from . import layout
from .batch_selection import Aborted
from .errors import Unread, UnreadableOffsets
from .layout import Numbers
from .split import Split
from .transactions import marker_of


class AbortCheck:
    """Compares markers of aborted transactions that are read with those that the plan has.

    The index of aborted transactions may be lost, and then looks like that of a segment without any.
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        self._known = {(one.producer_id, one.last_offset) for one in split.aborted or ()}
        #: Producer id -> the first offset that was read of its open transaction.
        self._begun: dict[int, int] = {}

    def forget(self) -> None:
        """Forgets open transactions: their markers may be among offsets that cannot be read."""
        self._begun.clear()

    def added(self, path: str, batch: Callable[[Numbers], bytes], rows: Numbers) -> tuple[Aborted, ...]:
        """Aborted transactions that end in these batches and that the plan lacks. `batch` returns the bytes of a row.

        Raises UnreadableOffsets where records of one were yielded before.
        """
        aborted: list[Aborted] = []
        first_row = int(rows[0, layout.BASE_OFFSET])
        chosen = (rows[:, layout.PRODUCER_ID] >= 0) & (rows[:, layout.ATTRIBUTES] & TRANSACTIONAL_FLAG != 0)
        for row in rows[chosen]:
            producer_id, offset = int(row[layout.PRODUCER_ID]), int(row[layout.BASE_OFFSET])
            if not row[layout.ATTRIBUTES] & CONTROL_FLAG:
                self._begun.setdefault(producer_id, offset)
                continue
            first = self._begun.pop(producer_id, None)
            # The plan leaves out those that end before the split. Reading may begin at earlier batches than the split does.
            if first is None or offset < self._split.first_offset or (producer_id, offset) in self._known:
                continue
            if marker_of(batch(row)) is not ControlType.ABORT:
                continue
            if max(first, self._split.first_offset) < first_row:
                reason = (
                    f"the index of aborted transactions lacks the one that this marker ends: offsets from {first} on"
                )
                position, split = int(row[layout.POSITION]), self._split
                raise UnreadableOffsets(
                    Unread(
                        split.topic, split.partition, first, offset + 1, path, position, f"{reason} are not committed"
                    )
                )
            aborted.append(Aborted(producer_id, first, offset))
        return tuple(aborted)
