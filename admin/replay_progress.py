"""The progress of a replay in the metadata of its group's commit for a partition: how far in the table it is.

The committed offset itself is the one in the topic that is written, behind the marker of the transaction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: An earlier release wrote the offset alone.
_TEXT = re.compile(r"table-offset=(\d{1,19})(?: table-end=(\d{1,19}) at-ms=(\d{1,15}))?")


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """`offset`: of the table, up to which records are in the topic; `end`: where the replay ends. `at_ms`: the time of the
    commit. Both are None where an earlier release has committed.
    """

    offset: int
    end: int | None = None
    at_ms: int | None = None

    def text(self) -> str:
        return f"table-offset={self.offset} table-end={self.end} at-ms={self.at_ms}"


def parse_replay_progress(text: str) -> ReplayProgress | None:
    """None for the metadata of another program. confluent-kafka commits the byte 0 that ends a text in C, too."""
    parsed = _TEXT.fullmatch(text.removesuffix("\0"))
    if parsed is None:
        return None
    offset, end, at_ms = (None if one is None else int(one) for one in parsed.groups())
    assert offset is not None
    return ReplayProgress(offset, end, at_ms)
