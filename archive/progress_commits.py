"""Commits of the offsets that tables cover to groups, so that the lag of an archive is in every tool of Kafka.

The offsets in the commits of the tables alone decide where an archive continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..admin.offset_committer import OffsetCommitter
from ..admin.pipeline_progress import ARCHIVE_GROUPS, NO_GROUP, PipelineKind, PipelineProgress
from ..admin.places import Place
from ..cli.client.committer import new_committer


class ProgressCommits:
    """`group`: that of all tables; None for one of each table, NO_GROUP for no commits. `table_of`: the name of a topic's
    table before it is open, for its errors; None where it is not known.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        group: str | None,
        on_error: Callable[[str], None],
        table_of: Callable[[str], str | None] = lambda topic: None,
    ) -> None:
        self._client = client
        self._group = group
        self._on_error = on_error
        self._table_of = table_of
        self._committer: OffsetCommitter | None = None
        self._offsets: dict[str, dict[Place, int]] = {}
        #: The group and the last progress of each topic.
        self._last: dict[str, tuple[str, PipelineProgress]] = {}

    def commit(self, topic: str, table: str, offsets: Mapping[int, int], rows_per_s: float, dead_letters: int) -> None:
        """Has the offsets of a table committed where they are new, or its last turn failed."""
        if self._group == NO_GROUP:
            return
        group = self._group or ARCHIVE_GROUPS + table.rpartition("/")[2]
        if self._last.get(topic, (group, None))[0] != group:  # the topic has another table now
            self.forget(topic)
        known = self._offsets.setdefault(group, {})
        places = {(topic, partition): offset for partition, offset in offsets.items()}
        _, last = self._last.get(topic, ("", None))
        if last is not None and not last.error and places.items() <= known.items():
            return
        known |= places
        progress = PipelineProgress(
            PipelineKind.archive, table, int(time.time() * 1000), -1, round(rows_per_s, 1), dead_letters
        )
        self._last[topic] = group, progress
        self._commit(group, progress)

    def fail(self, topic: str, error: str) -> None:
        """Has the last offsets of a topic's table committed again with the error of a turn; those of its group where the
        table has not been read yet.
        """
        group, last = self._last.get(topic, ("", None))
        if last is not None and last.error != error:
            progress = replace(last, error=error)
            self._last[topic] = group, progress
            self._commit(group, progress)
        table = self._table_of(topic) if last is None else None
        if table is not None:
            progress = PipelineProgress(PipelineKind.archive, table, 0, error=error)
            self._open_committer().commit_error(ARCHIVE_GROUPS + table, topic, progress)

    def forget(self, topic: str) -> None:
        """Ends the commits of a topic's table: another process has them from now on."""
        group, _ = self._last.pop(topic, ("", None))
        offsets = self._offsets.get(group, {})
        for place in [one for one in offsets if one[0] == topic]:
            del offsets[place]
        if self._committer is not None and group and not offsets:
            self._committer.forget(group)

    def _commit(self, group: str, progress: PipelineProgress) -> None:
        self._open_committer().commit(group, self._offsets[group], progress)

    def _open_committer(self) -> OffsetCommitter:
        if self._committer is None:
            self._committer = new_committer(self._client, self._on_error)
        return self._committer

    def close(self) -> None:
        """Waits some seconds for the last commits."""
        committer, self._committer = self._committer, None
        if committer is not None:
            committer.close()
