"""Makes the parts of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..node import Node
    from ..share.dead_letters import DeadLetters
    from ..share.share_partitions import SharePartitions
    from ..share.share_sessions import ShareSession, ShareSessions


def share_partitions(node: Node) -> SharePartitions:
    from ..share.share_partitions import SharePartitions

    return SharePartitions(node)


def share_sessions(node: Node) -> ShareSessions:
    from ..share.share_sessions import ShareSessions

    def ended(session: ShareSession, is_last_of_group: bool) -> None:
        """What the member had is for others; of a group that has nobody here, nothing is kept."""
        group_id, member_id = session.key
        node.share_partitions().release(group_id, member_id)
        if is_last_of_group:
            node.share_partitions().forget_group(group_id)

    made = ShareSessions(node.config.get("group.share.max.share.sessions"), ended)
    node.listeners.on_connection_lost.append(made.connection_lost)
    return made


def dead_letters(node: Node) -> DeadLetters:
    from ..share.dead_letters import DeadLetters

    return DeadLetters(node)
