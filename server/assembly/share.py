"""Makes the parts of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..node import Node
    from ..share.dead_letters import DeadLetters
    from ..share.share_acknowledge import ShareAcknowledgements
    from ..share.share_fetch import ShareFetches
    from ..share.share_groups import LatestOffsets, ShareGroupStates
    from ..share.share_partitions import ShareConfigs, SharePartitions
    from ..share.share_sessions import ShareSession, ShareSessions


def share_configs(node: Node) -> ShareConfigs:
    from ..share.share_partitions import ShareConfigs

    return ShareConfigs(node.config, node.metadata, node.clock)


def share_partitions(node: Node) -> SharePartitions:
    from ..share.share_partitions import SharePartitions

    return SharePartitions(
        node.partitions, node.leaders, node.persister, node.dead_letters, node.share_configs(), node.clock
    )


def share_sessions(node: Node) -> ShareSessions:
    from ..share.share_sessions import ShareSessions

    def ended(session: ShareSession, is_last_of_group: bool) -> None:
        """Releases the records of the member; drops the share partitions of a group without members here."""
        group_id, member_id = session.key
        node.share_partitions().release(group_id, member_id)
        if is_last_of_group:
            node.share_partitions().forget_group(group_id)

    made = ShareSessions(node.config.get("group.share.max.share.sessions"), ended)
    node.listeners.on_connection_lost.append(made.connection_lost)
    return made


def share_fetches(node: Node) -> ShareFetches:
    from ..share.share_fetch import ShareFetches

    path = node.fetch_path
    return ShareFetches(node.share_partitions(), node.share_configs(), node.clock, path.waits, path.max_bytes)


def share_acknowledgements(node: Node) -> ShareAcknowledgements:
    from ..share.share_acknowledge import ShareAcknowledgements

    return ShareAcknowledgements(node.metadata, node.metrics, node.share_partitions)


def share_group_states(node: Node) -> ShareGroupStates:
    from ..share.share_groups import ShareGroupStates

    return ShareGroupStates(node.groups, node.persister)


def latest_offsets(node: Node) -> LatestOffsets:
    from ..share.share_groups import LatestOffsets

    return LatestOffsets(node.partitions, node.leaders, node.peers)


def dead_letters(node: Node) -> DeadLetters:
    from ..share.dead_letters import DeadLetters
    from .coordinators import create_topics

    return DeadLetters(
        node.config, node.metadata, node.clock, node.leaders, node.peers, create_topics(node), node.pools.disk
    )
