"""Commits of a stream's offsets to a group, so that its lag is in every tool of Kafka. The checkpoint alone decides.

The ends of batches in the checkpoint name the group (`group`): `odradek-query-TOPIC-` and a number that the first batch
draws, or the option `commitGroup`. Spark tells a source of no batch that it is done. It looks for the end of a next batch
only then, so the batch that was planned before is committed at that moment.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..admin.pipeline_progress import NO_GROUP, QUERY_GROUPS, PipelineKind, PipelineProgress
from .options import Options

if TYPE_CHECKING:
    from ..admin.offset_committer import OffsetCommitter

#: The end of a batch in the checkpoint.
End = Mapping[str, object]
#: The member of an end that names the group.
GROUP = "group"
#: Limit of the wait before a query may end, and with it its Python process.
_FLUSH_S = 1.0


def committed_places(offsets: object) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition, of a mapping of topics to partitions. Ignores members of other shapes."""
    if not isinstance(offsets, Mapping):
        return {}
    return {
        (topic, int(partition)): offset
        for topic, partitions in offsets.items()
        if isinstance(partitions, Mapping)
        for partition, offset in partitions.items()
        if str(partition).isdecimal() and isinstance(offset, int) and offset >= 0
    }


class OffsetCommits:
    """The commits of one stream. No error of theirs reaches it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._new_group = ""
        #: The end of the batch that was planned last, and the one whose offsets were committed last.
        self._planned: End | None = None
        self._done: End | None = None
        self._committer: OffsetCommitter | None = None

    def named(self, begin: End) -> dict[str, str]:
        """The member of an end that names the group; nothing where there are no commits."""
        given = self._options.commit_group
        if given == NO_GROUP:
            return {}
        return {GROUP: given or str(begin.get(GROUP) or self._drawn())}

    def _drawn(self) -> str:
        if not self._new_group:
            topics = sorted(self._options.topics or self._options.assigned)
            self._new_group = f"{QUERY_GROUPS}{topics[0] if topics else 'pattern'}-{uuid.uuid4().hex[:8]}"
        return self._new_group

    def plan(self, end: End) -> None:
        """Notes the end of a batch that Spark plans."""
        self._planned = end

    def finish(self) -> None:
        """Has the batch that was planned committed: it is done."""
        if self._planned is not None and self._planned != self._done:
            self._done = self._planned
            self._commit("")

    def flush(self) -> None:
        """Waits a moment for commits: with nothing left to read, the query may end now."""
        if self._committer is not None:
            self._committer.flush(_FLUSH_S)

    @contextmanager
    def noting_failure(self) -> Iterator[None]:
        """Commits the last offsets again, with the error that ends the query."""
        try:
            yield
        except Exception as error:
            self._commit(str(error).strip().partition("\n")[0] or type(error).__name__)
            self.flush()
            raise

    def _commit(self, error: str) -> None:
        if self._done is None or self._options.commit_group == NO_GROUP:
            return
        group = self._options.commit_group or self._done.get(GROUP)
        if not group:
            return  # the end of an earlier release: the next one names a group
        if self._committer is None:
            from ..cli.client.committer import new_committer

            self._committer = new_committer(self._options.client)
        name = str(group).removeprefix(QUERY_GROUPS)
        progress = PipelineProgress(PipelineKind.query, name, int(time.time() * 1000), error=error)
        self._committer.commit(str(group), committed_places(self._done["offsets"]), progress)

    def close(self) -> None:
        committer, self._committer = self._committer, None
        if committer is not None:
            committer.close()
