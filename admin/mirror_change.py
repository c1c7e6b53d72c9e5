"""The change to a mirror: the effects of `replication/mirror/change.py` on two clusters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..client.errors import RequestFailed
from ..client.wording import counted
from ..metadata.mirror_keys import MIRROR_NAME, MIRROR_TOPIC_ID, SWITCHED
from ..protocol.errors import ErrorCode
from ..protocol.log_places import EARLIEST, LATEST
from ..protocol.uuids import uuid_to_text
from ..replication.mirror.change import Effect
from ..replication.mirror.link import Link, LinkState
from ..replication.mirror.partition import Batch
from . import group_offsets, mirrors
from .config_changes import Operation, alter_topic_configs
from .configs import describe_topic_configs
from .copied_access import copy_share_groups
from .errors import ResponseError, check
from .followed_groups import followed_offsets
from .last_batches import batches_at
from .log_offsets import list_offsets
from .topics import described_topics

if TYPE_CHECKING:
    from ..replication.mirror.progress import MirrorProgress
    from .places import Place
    from .session import Admin

#: Limit of the time in which brokers report that they have stopped.
_STOPPED_S = 10.0
_POLL_S = 0.1


class ChangeFailed(Exception):
    """A change that cannot go on; the text has the reason. The command may be run again."""


class MirrorChange:
    """The change of the topics of a link. `source`: None where it is lost. `say` gets what an operator should know.

    `timeout_s`: limit of the wait until everything is here. Afterwards `last` has the last progress of the partitions.
    """

    def __init__(
        self,
        admin: Admin,
        source: Admin | None,
        link: Link,
        topics: Sequence[str],
        timeout_s: float,
        say: Callable[[str], object],
    ) -> None:
        self.last: dict[Place, MirrorProgress] = {}
        #: The source cannot refuse producers, and none writes any more.
        self.producers_stopped = False
        self._admin = admin
        self._source = source
        self._link = link
        self._topics = topics
        self._timeout_s = timeout_s
        self._say = say

    def run(self, effects: Sequence[Effect]) -> None:
        """Raises ChangeFailed, and RequestFailed."""
        for effect in effects:
            self._steps()[effect]()

    def _steps(self) -> dict[Effect, Callable[[], None]]:
        return {
            Effect.COMPARE_LAST: self._compare_last,
            Effect.CLOSE_SOURCE: self._close_source,
            Effect.AWAIT_EQUAL: self._await_equal,
            Effect.COPY_GROUPS: self._copy_groups,
            Effect.STOP: lambda: self._set_state(LinkState.STOPPED),
            Effect.AWAIT_STOPPED: self._await_stopped,
            Effect.PROMOTE: lambda: self._set_state(LinkState.PROMOTED),
            Effect.AWAIT_PROMOTED: self._await_promoted,
            Effect.RAISE_FLOOR: self._raise_floor,
            Effect.OPEN_HERE: lambda: mirrors.open_topics(self._admin, self._topics),
        }

    def _set_state(self, state: LinkState) -> None:
        mirrors.set_state(self._admin, self._link.name, state, dry_run=False)

    # ---- the source

    def _close_source(self) -> None:
        source = self._source
        assert source is not None
        there = [self._link.name_there(topic) for topic in self._topics]
        for topic, values in describe_topic_configs(source, there, [MIRROR_NAME]).items():
            upstream = values[MIRROR_NAME].value if MIRROR_NAME in values else ""
            if upstream and not upstream.startswith(SWITCHED):
                raise ChangeFailed(f"topic {topic} of the source follows link {upstream}: switch there first")
        closed = {MIRROR_NAME: (Operation.SET.name, SWITCHED + self._link.name)}
        for result in alter_topic_configs(source, dict.fromkeys(there, closed)):
            if result.error_code == ErrorCode.INVALID_CONFIG:  # Apache Kafka has no such config
                if not self.producers_stopped:
                    raise ChangeFailed(
                        "the source cannot refuse producers: stop them there, then use --producers-stopped"
                    )
                return
            check(f"topic {result.resource_name}", result.error_code, result.error_message)

    def _check_same(self, there: Sequence[str]) -> None:
        """Raises ChangeFailed for topics of the source that were made anew, and for partitions that have stopped: their logs
        may have the same ends as those here, and are others.
        """
        assert self._source is not None
        noted = describe_topic_configs(self._admin, self._topics, [MIRROR_TOPIC_ID])
        ids = {
            topic: values[MIRROR_TOPIC_ID].value or "" for topic, values in noted.items() if MIRROR_TOPIC_ID in values
        }
        for topic in described_topics(self._source, there):
            own = uuid_to_text(topic.topic_id.bytes) if topic.topic_id is not None else ""
            if own != ids.get(self._link.name_here(topic.name), own):
                raise ChangeFailed(
                    f"topic {topic.name} of the source was deleted and made anew: what is here is not its copy. Delete the "
                    f"topic here, which the link makes anew, or keep what is here with `odradek mirror fail-over "
                    f"{self._link.name}`"
                )
        self._check_not_stopped()

    def _check_not_stopped(self) -> None:
        topics = set(self._topics)
        for (topic, index), one in sorted(mirrors.read_progress(self._admin, self._link.name).items()):
            if topic in topics and mirrors.is_stopped(one):
                raise ChangeFailed(
                    f"{topic}-{index} is {one.state}: {one.reason}. A switch would leave what only the source has: keep "
                    f"what is here with `odradek mirror fail-over {self._link.name}`"
                )

    def _places(self) -> dict[Place, Place]:
        """The partitions here, each with its place at the source."""
        return {
            (topic.name, one.partition_index): (self._link.name_there(topic.name), one.partition_index)
            for topic in described_topics(self._admin, list(self._topics))
            for one in topic.partitions
        }

    def _compare_last(self) -> None:
        """Raises ChangeFailed for a partition whose last batch here is not the source's of that offset."""
        assert self._source is not None
        self._check_same([self._link.name_there(topic) for topic in self._topics])
        source, there = self._source, self._places()
        starts = list_offsets(source, dict.fromkeys(there.values(), EARLIEST))
        ends = list_offsets(source, dict.fromkeys(there.values(), LATEST))
        starts_here = list_offsets(self._admin, dict.fromkeys(there, EARLIEST))
        last = {place: one.offset - 1 for place, one in list_offsets(self._admin, dict.fromkeys(there, LATEST)).items()}
        last = {
            place: offset
            for place, offset in last.items()
            if starts_here[place].offset <= offset and starts[there[place]].offset <= offset < ends[there[place]].offset
        }
        compacted = mirrors.compacted_topics(self._admin, self._topics) if last else set()
        ours = batches_at(self._admin, last, compacted)
        compacted_there = {self._link.name_there(topic) for topic in compacted}
        theirs = batches_at(source, {there[place]: offset for place, offset in last.items()}, compacted_there)
        for place, batch in sorted(ours.items()):
            other = theirs.get(there[place])
            is_compacted = place[0] in compacted
            if other is not None and not Batch.of(batch).is_same(Batch.of(other), is_compacted=is_compacted):
                raise ChangeFailed(
                    f"{place[0]}-{place[1]} has other records at offset {batch.base_offset} than the source, which has "
                    f"lost some and written others. `odradek mirror resume {self._link.name}` finds what both have; "
                    f"`odradek mirror fail-over {self._link.name}` keeps what is here"
                )

    def _await_equal(self) -> None:
        assert self._source is not None
        deadline = time.monotonic() + self._timeout_s
        there = self._places()
        places = list(there)
        while True:
            ends = list_offsets(self._source, dict.fromkeys(there.values(), LATEST))
            here = list_offsets(self._admin, dict.fromkeys(places, LATEST))
            behind = [(place, ends[there[place]].offset - here[place].offset) for place in places]
            behind = [(place, lag) for place, lag in behind if lag]
            if not behind:
                self._check_not_stopped()
                return
            if time.monotonic() > deadline:
                (topic, index), lag = behind[0]
                raise ChangeFailed(
                    f"the source has more of {counted(len(behind), 'partition')}, such as {topic}-{index} by {lag}: "
                    f"`odradek mirror status {self._link.name}` has the reasons; run `switch` again"
                )
            time.sleep(_POLL_S)

    def _copy_groups(self) -> None:
        assert self._source is not None
        skipped: dict[str, str] = {}
        topics = set(self._topics)
        for group, committed in followed_offsets(self._source, self._link, skipped).items():
            offsets = {place: one.offset for place, one in committed.items() if place[0] in topics}
            texts = {place: one.metadata for place, one in committed.items()}
            try:
                if offsets:
                    self._commit(group, offsets, texts)
            except RequestFailed as error:
                skipped[group] = str(error)
        if self._link.follows_share_groups:
            copy_share_groups(self._admin, self._source, self._link, skipped, dry_run=False)
        for group, reason in sorted(skipped.items()):
            self._say(f"offsets of group {group} are not copied: {reason}")

    def _commit(self, group: str, offsets: Mapping[Place, int], texts: Mapping[Place, str]) -> None:
        try:
            group_offsets.commit(self._admin, group, offsets, texts)
        except ResponseError as error:
            if error.code != ErrorCode.OFFSET_METADATA_TOO_LARGE:
                raise
            group_offsets.commit(self._admin, group, offsets)
            self._say(
                f"the texts of group {group}'s offsets are not copied: offset.metadata.max.bytes is too small here"
            )

    # ---- here

    def _await_stopped(self) -> None:
        self._note(mirrors.wait_stopped(self._admin, self._link.name, self._topics, _STOPPED_S))

    def _await_promoted(self) -> None:
        promoted = mirrors.wait_stopped(self._admin, self._link.name, self._topics, _STOPPED_S, promoted=True)
        self._note(promoted)
        for topic, index in sorted(self.last.keys() - promoted.keys()):
            self._say(f"{topic}-{index} has no leader that reports: a transaction may be open there")

    def _note(self, reported: dict[Place, MirrorProgress]) -> None:
        known = {**mirrors.read_progress(self._admin, self._link.name), **reported}
        topics = set(self._topics)
        self.last |= {place: one for place, one in known.items() if place[0] in topics}

    def _raise_floor(self) -> None:
        highest = max((one.producer_id for one in self.last.values()), default=-1)
        if highest >= 0:
            mirrors.raise_floor(self._admin, highest + 1)
