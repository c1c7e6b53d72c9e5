"""The progress of a mirrored partition, as a link's group commits it: the offset, and the rest as a JSON text beside it.

Commits are replicated and compacted, outlive the source, and every Kafka tool shows them. So a link needs no topic of its
own.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

#: A link's group is this and its name.
GROUP_PREFIX = "__mirror."
#: Limit of a reason: a commit's text has 4,096 bytes at most.
_MOST_REASON = 500


@dataclass(frozen=True, slots=True)
class MirrorProgress:
    """`offset`: the end of the log here. `source_end`: the source's last stable offset when it last said so, -1 for never.

    `at_ms`: when the source said so; `caught_up_ms`: when this log last had all of it. `producer_id`: the highest one in the
    state of the log, -1 for none. `is_final`: nothing is fetched any more, and nothing will be before the link is resumed.
    """

    offset: int
    state: str
    reason: str = ""
    source_end: int = -1
    at_ms: int = -1
    caught_up_ms: int = -1
    producer_id: int = -1
    is_final: bool = False
    #: Whether no transaction is open any more, in a log that becomes writable.
    is_promoted: bool = False

    @property
    def lag(self) -> int | None:
        """The offsets of the source that are not here; None where the source has never named its end."""
        return max(0, self.source_end - self.offset) if self.source_end >= 0 else None

    def behind_s(self, now_ms: int) -> float | None:
        """Seconds since this log had all of the source, 0 where it has; None where it never had."""
        if self.caught_up_ms < 0:
            return None
        return round((now_ms - self.caught_up_ms) / 1000, 1) if self.lag else 0.0

    def text(self) -> str:
        """The text of the commit."""
        fields = asdict(self)
        del fields["offset"]
        fields["reason"] = self.reason[:_MOST_REASON]
        return json.dumps(fields, separators=(",", ":"))


def group_of(link: str) -> str:
    return GROUP_PREFIX + link


def parse_progress(offset: int, text: str) -> MirrorProgress:
    """Raises ValueError for a commit that no mirror made."""
    try:
        fields = json.loads(text)
        progress = MirrorProgress(offset, **fields)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"not the progress of a mirror: {error}") from None
    numbers = (progress.source_end, progress.at_ms, progress.caught_up_ms, progress.producer_id)
    if not isinstance(progress.state, str) or not isinstance(progress.reason, str):
        raise ValueError("not the progress of a mirror: its state is not a text")
    if any(type(one) is not int for one in numbers) or {type(progress.is_final), type(progress.is_promoted)} != {bool}:
        raise ValueError("not the progress of a mirror: it lacks a number")
    return progress
