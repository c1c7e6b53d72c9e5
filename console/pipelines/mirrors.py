"""Links to other clusters, by the progress that brokers commit to the group of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...admin.mirrors import LinkStatus, read_statuses
from ...client.wording import counted
from .pipeline import MOST_PARTITIONS, MOST_PIPELINES, Kind, Pipeline, Reading

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ..cluster.model import TopicRow


def read_mirrors(admin: Admin, topics: Iterable[TopicRow], now_ms: int) -> list[Pipeline]:
    """Raises RequestFailed."""
    links = read_statuses(admin)[:MOST_PIPELINES]
    followed = {one.name: one.facts.mirror for one in topics if one.facts is not None} if links else {}
    return [_pipeline(one, followed, now_ms) for one in links]


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
