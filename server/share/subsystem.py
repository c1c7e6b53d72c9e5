"""Share groups on this node: one subsystem, whose parts are made with their first use.

A broker without share groups makes none. Other subsystems come in as arguments; only the parts see each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.internal_topics import SHARE_GROUP_STATE_TOPIC
from ..runtime.lazy import Lazy
from ..runtime.subsystem import Subsystem

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage
    from ..coordinators.persister_requests import Persister
    from ..coordinators.share_state_driver import ShareStateDriver
    from ..coordinators.subsystem import CoordinatorsSubsystem
    from ..fetch.subsystem import FetchSubsystem
    from ..network.subsystem import NetworkSubsystem
    from ..partitions.subsystem import PartitionsSubsystem
    from ..replicas.subsystem import ReplicasSubsystem
    from ..runtime.node import Node
    from .dead_letters import DeadLetters
    from .latest_offsets import LatestOffsets
    from .share_acknowledge import ShareAcknowledgements
    from .share_configs import ShareConfigs
    from .share_fetch import ShareFetches
    from .share_group_states import ShareGroupStates
    from .share_partitions import SharePartitions
    from .share_sessions import ShareSession, ShareSessions


class ShareSubsystem(Subsystem):
    """Share partitions and sessions, the states of groups at the persister, and the persister's shards on this broker."""

    name = "share groups"
    interest: Set[Part] = frozenset({"internal_topics", "deleted_topics"})

    def __init__(
        self,
        node: Node,
        network: NetworkSubsystem,
        partitions: PartitionsSubsystem,
        replicas: ReplicasSubsystem,
        coordinators: CoordinatorsSubsystem,
        fetch: FetchSubsystem,
    ) -> None:
        self._node = node
        self._listeners = network.listeners
        self._peers = network.peers
        self._hosted = partitions.hosted
        self._leaders = replicas.leaders
        self._coordinators = coordinators
        self._fetch_path = fetch.path
        self.configs = Lazy(self._make_configs)
        self.partitions = Lazy(self._make_partitions)
        self.sessions = Lazy(self._make_sessions)
        self.fetches = Lazy(self._make_fetches)
        self.acknowledgements = Lazy(self._make_acknowledgements)
        #: Operations that involve both the group's shard and the persister.
        self.group_states = Lazy(self._make_group_states)
        self.latest_offsets = Lazy(self._make_latest_offsets)
        #: Requests to the persister, on this broker or another one.
        self.persister = Lazy(self._make_persister)
        self.dead_letters = Lazy(self._make_dead_letters)
        #: The shards of the persister that this broker leads.
        self.states = Lazy(self._make_states)
        partitions.hosted.pending.on_made.append(self._take_up)
        coordinators.internal_topics[SHARE_GROUP_STATE_TOPIC] = self._ensure_topic

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        """Follows a new image."""
        if self.states.made is not None or image.topic(SHARE_GROUP_STATE_TOPIC) is not None:
            self.states().apply(delta, image)
        if self.partitions.made is not None:
            self.partitions.made.apply(bool(delta.topics))
        return ()

    async def stop(self) -> None:
        if self.partitions.made is not None:
            self.partitions.made.stop()
        if self.states.made is not None:
            self.states.made.stop()

    def _ensure_topic(self) -> None:
        self.states().ensure_topic(lambda: None)

    def _take_up(self, image: MetadataImage) -> None:
        """Follows partitions that exist later than the image that names them."""
        if self.states.made is not None:
            self.states.made.take_up(image)

    # Parts.

    def _make_configs(self) -> ShareConfigs:
        from .share_configs import ShareConfigs

        return ShareConfigs(self._node.config, self._node.metadata, self._node.clock)

    def _make_partitions(self) -> SharePartitions:
        from .share_partitions import SharePartitions

        self.interest = self.interest | {"topics"}  # share partitions end with the leadership of their partitions
        return SharePartitions(
            self._hosted, self._leaders, self.persister, self.dead_letters, self.configs(), self._node.clock
        )

    def _make_sessions(self) -> ShareSessions:
        from .share_sessions import ShareSessions

        made = ShareSessions(self._node.config.get("group.share.max.share.sessions"), self._session_ended)
        self._listeners.on_connection_lost.append(made.connection_lost)
        return made

    def _session_ended(self, session: ShareSession, is_last_of_group: bool) -> None:
        """Releases the records of the member; drops the share partitions of a group without members here."""
        group_id, member_id = session.key
        self.partitions().release(group_id, member_id)
        if is_last_of_group:
            self.partitions().forget_group(group_id)

    def _make_fetches(self) -> ShareFetches:
        from .share_fetch import ShareFetches

        path = self._fetch_path
        return ShareFetches(self.partitions(), self.configs(), self._node.clock, path.waits, path.max_bytes)

    def _make_acknowledgements(self) -> ShareAcknowledgements:
        from .share_acknowledge import ShareAcknowledgements

        return ShareAcknowledgements(self._node.metadata, self._node.metrics, self.partitions)

    def _make_group_states(self) -> ShareGroupStates:
        from .share_group_states import ShareGroupStates

        return ShareGroupStates(self._coordinators.groups, self.persister)

    def _make_latest_offsets(self) -> LatestOffsets:
        from .latest_offsets import LatestOffsets

        return LatestOffsets(self._hosted, self._leaders, self._peers)

    def _make_persister(self) -> Persister:
        from ..coordinators.persister_requests import Persister

        return Persister(self.states, self._node.metadata, self._leaders, self._peers)

    def _make_dead_letters(self) -> DeadLetters:
        from .dead_letters import DeadLetters

        create_topics = self._coordinators.create_topics
        return DeadLetters(self._node, self._leaders, self._peers, create_topics, self._hosted.remote)

    def _make_states(self) -> ShareStateDriver:
        from ..coordinators.share_state_driver import ShareStateDriver

        topic_creation = Lazy(self._coordinators.topic_creation)
        node = self._node
        return ShareStateDriver(node.config, node.clock, self._hosted, topic_creation, node.metadata)
