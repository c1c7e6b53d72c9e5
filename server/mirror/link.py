"""A link as one broker follows it: the partitions that it leads, and, on the coordinator of its group, topics and offsets.

Every second the source's metadata is read, in a thread: each led partition gets the fetcher of its leader there. What the
partitions have reached is committed to the link's group (`replication/mirror/progress.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ...client.errors import RequestFailed
from ...client.wording import counted
from ...metadata.image import EMPTY_IMAGE, TOPIC_RESOURCE
from ...metadata.mirror_keys import CUTS_DIVERGED, MIRROR_NAME, MIRROR_TOPIC_ID
from ...protocol.errors import ErrorCode
from ...replication.mirror.fetch_linger import FetchLinger
from ...replication.mirror.link import Link, LinkState
from ...replication.mirror.partition import STOPPED_STATES, MirroredLog, MirrorState
from ...replication.mirror.progress import MirrorProgress, group_of
from ...replication.mirror.report import REPORT_PARTITION, REPORT_TOPIC, LinkReport
from ...storage.files.failures import LogDirectoryFailure
from ..replicas.fetcher import ReplicaFetcher
from .access import LinkAccess
from .cuts import LinkCuts
from .followed import MirroredPartition
from .here import MOST_COMMITTED, Commit, Here
from .link_quota import LinkQuota
from .local_batches import last_batch
from .requests import SourceRequests
from .source import Source, SourceTopic, SourceView
from .topics import LinkTopics

if TYPE_CHECKING:
    from ...admin.group_offsets import Committed
    from ...metadata.image import MetadataImage, TopicImage
    from ..partitions.hosted_partition import HostedPartition

log = logging.getLogger("odradek.mirror")

T = TypeVar("T")
#: Errors of a commit to a group with members, which commit themselves.
_WITH_MEMBERS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)
#: Topic here, and index.
Place = tuple[str, int]
Configs = Mapping[str, str]

#: States of a link that fetches nothing for good.
_ENDED = frozenset({LinkState.STOPPED, LinkState.PROMOTED})
#: Characters of a failure that health shows.
_MOST_SHOWN = 300
#: Between two reads of the source's metadata, and two reports of progress.
PERIOD_S = 1.0
#: Configs of the source's topics are read in every such round.
CONFIG_ROUNDS = 10
#: Progress and offsets that have not changed are committed again after so long, or after a quarter of the retention of
#: offsets, so that they do not expire.
KEPT_MS = 3_600_000


class LinkFollower:
    """`link` may be replaced by one with another state. `error`: why the source could not be read in the last round."""

    def __init__(self, link: Link, here: Here) -> None:
        self.link = link
        self.error = ""
        self.partitions: dict[Place, MirroredPartition] = {}
        self._here = here
        self._topics = LinkTopics(link, here)
        self._access = LinkAccess(link, here)
        self._cuts = LinkCuts(link.name, here)
        self._quota = LinkQuota(lambda: self.link.throttle, here.node.clock)
        self._thread = ThreadPoolExecutor(1, f"mirror-{link.name}")
        self._source: Source | None = None
        self._requests: SourceRequests | None = None
        self._fetchers: dict[int, ReplicaFetcher] = {}
        #: The last commits, and their times: progress, offsets of groups by their names here, and the text of the report.
        self._reported: dict[Place, tuple[MirrorProgress, int]] = {}
        self._committed: dict[str, tuple[dict[Place, Commit], int]] = {}
        self._reported_text = ("", 0)
        #: Why groups with committed offsets are not copied, by their names here.
        self._skipped: dict[str, str] = {}
        self._cluster_id = ""
        self._round = 0
        #: The state that the last round followed: fetches go on until the next one when an operator stops the link.
        self._state = link.state
        #: Topics that follow the link, with their configs, by the last image.
        self._seen = EMPTY_IMAGE
        self._followed: dict[str, tuple[TopicImage, Configs]] = {}
        self._wakeup = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"mirror {link.name}")

    @property
    def refused(self) -> Mapping[str, str]:
        """Why topics of the source are not followed, by their names here."""
        return self._topics.refused

    @property
    def skipped(self) -> dict[str, str]:
        """Why groups are not copied, by their names here."""
        return self._access.skipped | self._skipped

    @property
    def fetched_bytes(self) -> int:
        return self._quota.total

    def state_of(self, mirrored: MirroredPartition) -> str:
        """A partition's state in a word."""
        is_active = self._state is LinkState.ACTIVE or mirrored.log.state in STOPPED_STATES
        return mirrored.log.state.value if is_active else self._state.value

    def published(self, link: Link, image: MetadataImage) -> None:
        """Follows an image. The next round begins now where the link, or its topics or their leaders, have changed."""
        is_changed = link != self.link
        self.link = link
        if image.topics is not self._seen.topics or image.configs is not self._seen.configs:
            followed = dict(_following(link.name, image))
            is_changed |= followed != self._followed
            self._followed = followed
        self._seen = image
        if is_changed:
            self._wakeup.set()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._here.node.background.forget(f"mirror {self.link.name}")
        self._end_fetches()
        if self._requests is not None:
            self._requests.close()
        source, self._source = self._source, None
        if source is not None:
            # Not in the link's thread: that may wait for a source that does not respond, and this ends its wait.
            await asyncio.to_thread(source.close)
        self._thread.shutdown(wait=False, cancel_futures=True)

    # ---- rounds

    async def _run(self) -> None:
        while True:
            self._wakeup.clear()
            try:
                try:
                    await self._follow()
                    self.error = ""
                except RequestFailed as error:
                    self._failed(str(error))
                if self._state not in _ENDED:
                    await self._keep_groups()
                self._note_health()
                await self._report()
            except Exception:
                log.exception("a bug: a round of link %s failed", self.link.name)
            self._round += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_S):
                    await self._wakeup.wait()

    def _note_health(self) -> None:
        """Has /health/ready name a source that cannot be read, and partitions that have stopped."""
        task, background = f"mirror {self.link.name}", self._here.node.background
        stopped = [one for one in self.partitions.values() if one.log.state in STOPPED_STATES]
        if self.error:
            background.failing[task] = f"the source cannot be read: {self.error}"[:_MOST_SHOWN]
        elif stopped:
            first = stopped[0]
            words = f"stopped: {counted(len(stopped), 'partition')}, such as {first.hosted.name}: {first.log.reason}"
            background.failing[task] = words[:_MOST_SHOWN]
        else:
            background.forget(task)

    def _failed(self, words: str) -> None:
        if words != self.error:
            log.warning("link %s: its source cannot be read: %s", self.link.name, words)
        self.error = words

    async def _follow(self) -> None:
        self._state = self.link.state
        if self._state is not LinkState.ACTIVE:
            self._end_fetches()
            await self._adopt_stopped()
            if self._state is LinkState.PROMOTED:
                for mirrored in self.partitions.values():
                    # Not those of a client, in a topic that has become writable meanwhile.
                    if mirrored.is_current and mirrored.hosted.role.has_enough_in_sync:
                        mirrored.hosted.abort_open_transactions(self._here.node.clock.now_ms())
            return
        await self._here.ensure_groups()
        view = await self._blocking(self._read_view)
        await self._adopt(view)
        for mirrored in list(self.partitions.values()):
            if mirrored.log.state is MirrorState.CUTTING:
                await self._cuts.cut(mirrored)
        if self._here.coordinates(group_of(self.link.name)):
            await self._coordinate(view)

    async def _keep_groups(self) -> None:
        """Commits offsets again that were copied long ago, also while the source cannot be read or the link is paused.

        The source keeps those of a group that is idle there, but has members. Here it has none, so they would expire.
        """
        if not self._here.coordinates(group_of(self.link.name)):
            self._committed = {}  # another broker commits, and the source's next offset may be an earlier one
            self._access.forget()
        for group, (offsets, committed_ms) in list(self._committed.items()):
            if self._expires(committed_ms):
                followed = {place: offset for place, offset in offsets.items() if place[0] in self._followed}
                error = await self._commit_group(group, followed) if followed else 0
                if error:
                    self._skipped[group] = _reason(error)

    def _read_view(self) -> SourceView:
        if self._source is None:
            self._source = Source(self.link)
        return self._source.view()

    async def _blocking(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    # ---- partitions

    def _led(self) -> Iterator[tuple[str, HostedPartition]]:
        """The partitions of this link that this broker leads, with the names of their topics."""
        here = self._here
        for name, (topic, _) in self._followed.items():
            for index in topic.partitions:
                hosted = here.partitions.get((name, index))
                if hosted is not None and hosted.role.is_leader and not hosted.offline:
                    yield name, hosted

    async def _adopt(self, view: SourceView) -> None:
        """Gives each led partition the leader that it has there now."""
        assert self._source is not None
        if self._requests is None:
            self._requests = SourceRequests(self._here.node.config.node_id, self._here.node.config, self._source)
        self._requests.take(view)
        led = {}
        for topic, hosted in list(self._led()):
            followed = await self._adopted(view.topics.get(self.link.name_there(topic)), topic, hosted)
            if followed is not None:
                led[topic, hosted.index] = followed
                followed.ask_ends_if_silent(self._requests, self._here.node.clock)
                followed.changed(followed)
        for place in self.partitions.keys() - led.keys():
            self.partitions[place].leave()
        self.partitions = led

    async def _adopted(
        self, source: SourceTopic | None, topic: str, hosted: HostedPartition
    ) -> MirroredPartition | None:
        """The partition with the leader that it has there. None where its log has failed: the next round begins anew."""
        before = self.partitions.get((topic, hosted.index))
        leader = source.leaders[hosted.index] if source is not None and hosted.index < len(source.leaders) else None
        if before is not None and before.is_current and (leader is None or leader.epoch == before.epoch):
            self._note_state(before, source, leader is not None)
            if before.leader == (leader.node if leader is not None else -1):
                return before
        if before is not None:
            before.leave()  # nothing is appended while the last batch is read
        mirrored_log = await self._log_of(hosted, before)
        if mirrored_log is None:
            return None
        key = (source.key if source is not None else b"", hosted.index)
        made = MirroredPartition(
            hosted, key, self.link.name_there(topic), leader.node if leader is not None else -1,
            leader.epoch if leader is not None else -1, mirrored_log,
        )  # fmt: skip
        if before is not None:
            made.resume(before)
        self._note_state(made, source, leader is not None)
        made.search()
        if leader is not None and leader.node >= 0:
            self._fetcher(leader.node).follow(made)
        return made

    async def _log_of(self, hosted: HostedPartition, before: MirroredPartition | None) -> MirroredLog | None:
        """None where the log cannot be read, or has changed meanwhile."""
        end = hosted.log_end_offset
        try:
            last = await last_batch(hosted)
        except LogDirectoryFailure as failure:
            hosted.on_failure(failure)
            return None
        if hosted.log_end_offset != end:
            return None
        compacts, start = hosted.open_log().config.compact, hosted.log_start_offset
        made = MirroredLog(end, last, compacts, start, self._cuts_diverged(hosted))
        if before is not None and before.log.state in STOPPED_STATES and before.hosted is hosted:
            made.stop(before.log.state, before.log.reason)
        return made

    def _cuts_diverged(self, hosted: HostedPartition) -> bool:
        """Whether the log may be cut: by the config of its topic, or else of the link."""
        own = self._here.node.metadata.image.config(TOPIC_RESOURCE, hosted.topic).get(CUTS_DIVERGED)
        return self.link.cuts_diverged if own is None else own == "true"

    def _note_state(self, mirrored: MirroredPartition, source: SourceTopic | None, is_there: bool) -> None:
        """Stops a partition whose topic is another one there, or gone; goes on with one that is there again."""
        hosted, mirrored_log = mirrored.hosted, mirrored.log
        own_id = self._here.node.metadata.image.config(TOPIC_RESOURCE, hosted.topic).get(MIRROR_TOPIC_ID, "")
        if source is None or not is_there:
            mirrored_log.stop(
                MirrorState.MISSING, "the source has no such partition, or does not show it to this login"
            )
        elif source.id_text != own_id:
            words = f"the source's topic has the id {source.id_text or '(none)'} now: it was deleted and made anew"
            mirrored_log.stop(MirrorState.RECREATED, words)
        else:
            mirrored_log.found_again()
            mirrored_log.allow_cut(cuts=self._cuts_diverged(hosted))

    async def _adopt_stopped(self) -> None:
        """Has the partitions without fetches, of which only the progress is reported."""
        led = {}
        for topic, hosted in list(self._led()):
            place = (topic, hosted.index)
            before = self.partitions.get(place)
            is_kept = before is not None and before.hosted is hosted
            mirrored_log = before.log if before is not None and is_kept else await self._log_of(hosted, None)
            if mirrored_log is None:
                continue
            made = MirroredPartition(hosted, (b"", hosted.index), self.link.name_there(topic), -1, -1, mirrored_log)
            if before is not None:
                made.resume(before)
            led[place] = made
        self.partitions = led

    def _fetcher(self, leader: int) -> ReplicaFetcher:
        if leader not in self._fetchers:
            assert self._requests is not None
            purpose = f"mirror-{self.link.name}-of-{leader}"
            self._fetchers[leader] = ReplicaFetcher(
                self._here.node, leader, purpose, self._requests, self._quota, pauses=FetchLinger(self._linger_ms)
            )
        return self._fetchers[leader]

    def _linger_ms(self) -> int:
        return self.link.linger_ms

    def _end_fetches(self) -> None:
        for mirrored in self.partitions.values():
            mirrored.leave()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers = {}

    # ---- progress

    async def _report(self) -> None:
        """Commits the progress that has changed since it was last committed, and, on the coordinator, the link's report."""
        changed: dict[Place, MirrorProgress] = {}
        now_ms = self._here.node.clock.now_ms()
        for place, mirrored in self.partitions.items():
            progress, known = self._progress(mirrored), self._reported.get(place)
            if known is None or known[0] != progress or self._expires(known[1]):
                changed[place] = progress
        group, left = group_of(self.link.name), iter(changed.items())
        while some := dict(islice(left, MOST_COMMITTED)):
            commits = {place: Commit(one.offset, one.text()) for place, one in some.items()}
            if await self._here.commit(group, commits):
                return  # the coordinator moves: the next round commits it
            self._reported.update({place: (one, now_ms) for place, one in some.items()})
        if self._here.coordinates(group):
            unfollowed = self._topics.unfollowed | self._access.unfollowed
            text, known_text = (
                LinkReport(self.error, self.refused, self.skipped, unfollowed).text(),
                self._reported_text,
            )
            if (text != known_text[0] or self._expires(known_text[1])) and not await self._here.commit(
                group, {(REPORT_TOPIC, REPORT_PARTITION): Commit(0, text)}
            ):
                self._reported_text = text, now_ms
        else:
            self._reported_text = ("", 0)

    def _expires(self, committed_ms: int) -> bool:
        """Whether what was committed then is to be committed again."""
        node = self._here.node
        retention_ms = node.config.get("offsets.retention.minutes") * 60_000
        return abs(node.clock.now_ms() - committed_ms) > min(KEPT_MS, retention_ms // 4)

    def _progress(self, mirrored: MirroredPartition) -> MirrorProgress:
        hosted, reason = mirrored.hosted, mirrored.log.reason
        if mirrored.error and not reason and self._state is LinkState.ACTIVE:
            reason = f"the source answers {ErrorCode(mirrored.error).name}"
        is_replicated, producers = hosted.high_watermark == hosted.log_end_offset, hosted.open_log().producers
        return MirrorProgress(
            offset=hosted.high_watermark,
            state=self.state_of(mirrored),
            reason=reason,
            source_end=mirrored.source_end,
            at_ms=mirrored.source_end_ms,
            caught_up_ms=mirrored.caught_up_ms,
            producer_id=max(producers.by_id, default=-1),
            is_final=self._state in _ENDED and is_replicated,
            is_promoted=self._state is LinkState.PROMOTED and is_replicated and not producers.has_open,
        )

    # ---- the coordinator's part

    async def _coordinate(self, view: SourceView) -> None:
        source = self._source
        assert source is not None
        absent = self._topics.missing(view.topics)  # some of them
        if absent:
            configs = await self._blocking(lambda: source.configs(topic.name for topic in absent))
            self._cluster_id = self._cluster_id or await self._blocking(source.cluster_id)
            await self._topics.make(absent, configs, self._cluster_id)
        await self._topics.grow(view.topics)
        if self._round % CONFIG_ROUNDS == 0 and view.topics:
            configs = await self._blocking(lambda: source.configs(view.topics))
            await self._topics.follow_configs(configs)
        if self.link.groups is not None:
            skipped: dict[str, str] = {}
            offsets = await self._blocking(lambda: source.offsets(skipped))
            await self._follow_groups(offsets, skipped)
        if self._round % CONFIG_ROUNDS == 0 and self._access.is_chosen:
            found = await self._blocking(lambda: source.access(self._access))
            await self._access.follow(found, await self._here.committed(group_of(self.link.name)))

    async def _follow_groups(
        self, offsets_of_groups: Mapping[str, Mapping[Place, Committed]], skipped: dict[str, str]
    ) -> None:
        """Commits what has changed at the source. No offset is beyond what is replicated here: after a fail-over a group
        would find it out of range. `skipped`: groups that could not be read, with the reasons.
        """
        ends = await self._here.committed(group_of(self.link.name))
        for group in self._committed.keys() - skipped.keys():
            if not offsets_of_groups.get(group):
                del self._committed[group]  # deleted at the source
        for group, offsets in offsets_of_groups.items():
            reached = self._commits(offsets, ends)
            known = self._committed.get(group)
            if reached and (known is None or known[0] != reached):
                error = await self._commit_group(group, reached)
                if error:
                    skipped[group] = _reason(error)
        self._skipped = skipped

    def _commits(self, offsets: Mapping[Place, Committed], ends: Mapping[Place, int]) -> dict[Place, Commit]:
        """The offsets of a group that are reached here, with those of its texts that this cluster takes."""
        most = self._here.node.config.get("offset.metadata.max.bytes")
        reached = self._here.reached(self.link.name, {place: one.offset for place, one in offsets.items()}, ends)
        texts = {place: offsets[place].metadata for place in reached}
        return {
            place: Commit(offset, texts[place] if len(texts[place]) <= most else "")
            for place, offset in reached.items()
        }

    async def _commit_group(self, group: str, offsets: dict[Place, Commit]) -> int:
        """Returns an error code, 0 for success."""
        error = await self._here.commit(group, offsets)
        if not error:
            self._committed[group] = offsets, self._here.node.clock.now_ms()
        return error


def _following(link: str, image: MetadataImage) -> Iterator[tuple[str, tuple[TopicImage, Configs]]]:
    """The topics that follow a link, and their configs."""
    for (kind, name), configs in image.configs.items():
        if kind == TOPIC_RESOURCE and configs.get(MIRROR_NAME) == link and (topic := image.topic(name)) is not None:
            yield name, (topic, configs)


def _reason(error: int) -> str:
    """Why offsets of a group are not copied."""
    if error in _WITH_MEMBERS:
        return "it has members here"
    return f"its offsets cannot be committed: {ErrorCode(error).name}"
