"""Committed offsets of the groups that a link follows, with their texts: for the link and for the change to its mirror.

The text beside an offset is a program's own: Kafka Streams has its times there, the sink of Spark its ledger, and a replay
its progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..client.errors import RequestFailed
from .group_offsets import Committed, committed
from .groups import list_groups
from .pipeline_progress import ARCHIVE_GROUPS

if TYPE_CHECKING:
    from ..replication.mirror.link import Link
    from .places import Place
    from .session import Admin


def followed_offsets(source: Admin, link: Link, unreadable: dict[str, str]) -> dict[str, dict[Place, Committed]]:
    """The offsets of followed topics that followed groups have committed, by names here.

    `unreadable` gets the groups that cannot be read, with the reasons. Share groups have no committed offsets. Groups of
    links are not followed: their progress is that of another cluster's mirrors. Nor are those of archives: a table has the
    records of one cluster, and the archive of a mirrored topic commits to the same name here.
    """
    found: dict[str, dict[Place, Committed]] = {}
    if link.groups is None:
        return found
    for group in list_groups(source):
        if not link.follows_group(group.group_id) or group.kind == "share":
            continue
        name = link.name_here(group.group_id)
        if name.removeprefix(link.prefix).startswith(ARCHIVE_GROUPS):
            continue
        try:
            offsets = committed(source, group.group_id)
        except RequestFailed as error:
            unreadable[name] = str(error)
            continue
        found[name] = {
            (link.name_here(topic), index): one for (topic, index), one in offsets.items() if link.follows_topic(topic)
        }
    return found
