"""Records of an internal topic that a coordinator cannot use: a loading skips and counts them, and logs some of them.

Kafka's admin client may write to internal topics, and so may a client that takes its id. One such record must not keep a
coordinator from its groups.
"""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)

#: Lines of one loading; the rest is a count.
MOST_LINES = 20
#: The exception of the replay of a record whose fields have values that do not exist. Any other one is a bug: it ends the
#: loading, as in Kafka, since a skipped record of ours would be lost state.
UNUSABLE = (ValueError,)


class SkippedRecords:
    """Those of one loading. `name`: the partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self._reasons: set[str] = set()

    def undecodable(self, offset: int, error: Exception) -> None:
        """As in Kafka, records of newer versions are ignored. A reason is logged once."""
        self._note(logging.WARNING, offset, "skipped", str(error))

    def unusable(self, offset: int, error: Exception) -> None:
        self._note(logging.ERROR, offset, "skipped, since they cannot be replayed", f"{type(error).__name__}: {error}")

    def misplaced(self, offset: int, base_offset: int) -> None:
        """The offset is out of order within the batch that begins at `base_offset`."""
        self._note(logging.ERROR, offset, "skipped", f"out of order in the batch at offset {base_offset}")

    def _note(self, level: int, offset: int, verb: str, reason: str) -> None:
        self.count += 1
        if reason not in self._reasons and len(self._reasons) < MOST_LINES:
            self._reasons.add(reason)
            log.log(level, "%s: records from offset %d on are %s: %s", self.name, offset, verb, reason)

    def log_count(self) -> None:
        """Logs how many there were, at the end of a loading."""
        if self.count:
            log.warning("%s: %d records of it were skipped", self.name, self.count)
