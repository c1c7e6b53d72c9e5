"""`OffsetCommitListener`: the end offsets of each batch of a session's queries, committed to groups of a cluster.

It is for queries of the stock connector, `format("kafka")`, which commit to no group. For `format("odradek")` it commits to
the group that the checkpoint names, at the end of each batch and with its number; the source itself does so before the next
one.

    from odradek.spark.offset_listener import OffsetCommitListener
    spark.streams.addListener(OffsetCommitListener({"kafka.bootstrap.servers": "127.0.0.1:9092"}))
"""

from __future__ import annotations

import atexit
import json
import logging
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from ..admin.pipeline_progress import QUERY_GROUPS, PipelineKind, PipelineProgress
from ..cli.client.committer import new_committer
from .offset_commits import GROUP, committed_places
from .options import InvalidOptions

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from ..admin.places import Place

_logger = logging.getLogger(__name__)

#: The description of a source of the stock connector begins so.
_STOCK = "Kafka"
#: A line of an error of this package, in a text of Spark with the stacks of two languages.
_OWN_ERROR = re.compile(r"^odradek\.[\w.]+: (.+)$", re.MULTILINE)


class OffsetCommitListener(StreamingQueryListener):
    """Commits from a thread of its own: it slows no query, and none of its errors reaches one."""

    def __init__(self, options: Mapping[str, str], groups: Mapping[str, str] | None = None) -> None:
        """`options`: `kafka.bootstrap.servers` and other properties of Kafka's clients, as those of a reader.

        `groups`: the group for each name of a query, and for no other query. Without it, the group of each query is
        `odradek-query-` and the name of the query, or its id. Raises InvalidOptions.
        """
        super().__init__()
        client = {
            name.lower().removeprefix("kafka."): str(value)
            for name, value in options.items()
            if name.lower().startswith("kafka.")
        }
        if not client.get("bootstrap.servers"):
            raise InvalidOptions("Option 'kafka.bootstrap.servers' must name the brokers of the groups")
        self._groups = groups
        self._committer = new_committer(client)
        #: The last commits by the id of a query.
        self._last: dict[str, dict[str, tuple[dict[Place, int], PipelineProgress]]] = {}
        self._has_failed = False
        atexit.register(self._committer.close)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Does nothing: no batch is done."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        try:
            self._commit(_mapping(event.progress.json))
        except Exception as error:  # of a form of progress that is not known
            self._note(error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Does nothing: the offsets are those of the last batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        for group, (offsets, progress) in self._last.pop(str(event.id), {}).items():
            if event.exception:
                error = shown_error(event.exception)
                failed = PipelineProgress(progress.kind, progress.name, progress.at_ms, progress.batch, error=error)
                self._committer.commit(group, offsets, failed)

    def close(self) -> None:
        """Waits some seconds for the last commits. The end of the process does so, too."""
        atexit.unregister(self._committer.close)
        self._committer.close()

    def _commit(self, progress: Mapping[str, object]) -> None:
        query, name = str(progress["id"]), str(progress.get("name") or "")
        if self._groups is not None and name not in self._groups:
            return
        by_group: dict[str, dict[Place, int]] = {}
        listed = progress["sources"]
        sources = [_mapping(one) for one in listed] if isinstance(listed, list) else []
        for source in sources:
            group, offsets = self._offsets_of(source, query, name)
            for place, offset in offsets.items():
                known = by_group.setdefault(group, {})
                known[place] = min(offset, known.get(place, offset))  # two sources may read a partition
        rate = sum(float(str(source.get("processedRowsPerSecond") or 0.0)) for source in sources)
        shown = name or query[:8]
        done = PipelineProgress(
            PipelineKind.query, shown, int(time.time() * 1000), int(str(progress["batchId"])), round(rate, 1)
        )
        self._last[query] = {group: (offsets, done) for group, offsets in by_group.items()}
        for group, offsets in by_group.items():
            self._committer.commit(group, offsets, done)

    def _offsets_of(self, source: Mapping[str, object], query: str, name: str) -> tuple[str, dict[Place, int]]:
        """The group and the end offsets of a source; nothing for one that reads no topics, or that is to commit nothing."""
        end = _mapping(source.get("endOffset"))
        default = (self._groups or {}).get(name) or f"{QUERY_GROUPS}{name or query[:8]}"
        if isinstance(end.get("topicIds"), Mapping):  # format("odradek")
            return (str(end[GROUP]), committed_places(end["offsets"])) if GROUP in end else ("", {})
        return (default, committed_places(end)) if str(source.get("description")).startswith(_STOCK) else ("", {})

    def _note(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            _logger.warning("the offsets of a query are not committed: %s: %s", type(error).__name__, error)


def _mapping(value: object) -> Mapping[str, object]:
    """A JSON object, or the text of one; an empty one for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}


def shown_error(text: str) -> str:
    """One line of the text of a failed query: that of an error of this package where there is one."""
    own = _OWN_ERROR.findall(text)
    return own[-1] if own else text.strip().partition("\n")[0]
