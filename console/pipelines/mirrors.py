"""Links to other clusters, by the progress that brokers commit to the group of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ...admin.mirrors import LinkStatus, link_statuses, read_progress
from ...client.wording import counted
from ..cluster.group_reads import GroupReads
from .pipeline import MOST_PARTITIONS, MOST_PIPELINES, Kind, Pipeline, Reading

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ..cluster.model import TopicRow


def read_mirrors(admin: Admin, reads: GroupReads, topics: Iterable[TopicRow], now_ms: int) -> list[Pipeline]:
    """The links, without those that `reads` leaves out. Raises RequestFailed."""
    every = [_with_progress(admin, reads, one) for one in link_statuses(admin)[:MOST_PIPELINES]]
    links = [one for one in every if one is not None]
    followed = {one.name: one.facts.mirror for one in topics if one.facts is not None} if links else {}
    return [_pipeline(one, followed, now_ms) for one in links]


def _with_progress(admin: Admin, reads: GroupReads, link: LinkStatus) -> LinkStatus | None:
    """A link that has committed none yet has no group, and no progress."""
    if not reads.is_known(link.group):
        return link
    progress = reads.read(link.group, lambda node: read_progress(admin, link.name, node))
    return None if progress is None else replace(link, progress=progress)


def _pipeline(link: LinkStatus, followed: dict[str, str], now_ms: int) -> Pipeline:
    # Commits of topics that follow no more are left; of topics without facts it is not known yet.
    progress = {
        place: one
        for place, one in sorted(link.progress.items())[:MOST_PARTITIONS]
        if followed.get(place[0], link.name) == link.name
    }
    state, tone = ("following", "good") if link.is_active else (link.wanted, "plain")
    if link.stopped:
        state, tone = f"{link.stopped} of {counted(len(progress), 'partition')} stopped", "bad"
    times = [one.behind_s(now_ms) for one in progress.values()]
    return Pipeline(
        Kind.mirror,
        link.name,
        link.source,
        state,
        tone,
        tuple(
            Reading(*place, one.offset, one.source_end if one.source_end >= 0 else None, one.lag, one.state, one.reason)
            for place, one in progress.items()
        ),
        max((one.at_ms for one in progress.values() if one.at_ms >= 0), default=None),
        max((one for one in times if one is not None), default=None),
        group=link.group,
    )
