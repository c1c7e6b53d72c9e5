"""The coordinators of groups and transactions on this node: one subsystem, whose rarer parts are made with their first use.

A broker without transactions makes none of theirs. The shards follow the roles of partitions of internal topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING

from ...metadata.internal_topics import TRANSACTION_STATE_TOPIC
from ..runtime.lazy import Lazy
from ..runtime.subsystem import Subsystem, stop_each
from .group_driver import GroupDriver

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage
    from ...protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from ..controller.controller_request import ClientFields
    from ..controller.subsystem import ControllerSubsystem
    from ..network.subsystem import NetworkSubsystem
    from ..partitions.subsystem import PartitionsSubsystem
    from ..replicas.subsystem import ReplicasSubsystem
    from ..runtime.node import Node
    from .auto_creation import AutoCreation
    from .streams_topics import StreamsTopics
    from .topic_creation import TopicCreation
    from .transaction_driver import TransactionDriver
    from .transaction_markers import TransactionMarkers
    from .transaction_verification import TransactionVerification


class CoordinatorsSubsystem(Subsystem):
    """The drivers of the shards that this broker leads, and what they need of other nodes."""

    name = "coordinators"

    def __init__(
        self,
        node: Node,
        network: NetworkSubsystem,
        partitions: PartitionsSubsystem,
        replicas: ReplicasSubsystem,
        controller: ControllerSubsystem,
    ) -> None:
        self._node = node
        self._partitions = hosted = partitions.hosted
        self._leaders = replicas.leaders
        self._peers = network.peers
        self._controller = controller
        self.groups = GroupDriver(
            node.config, node.clock, hosted, Lazy(self.topic_creation), node.metadata, node.late_imports
        )
        self.interest: Set[Part] = self.groups.interest
        self.transactions = Lazy(self._make_transactions)
        #: Markers of transactions, on this broker and on others.
        self.markers = Lazy(self._make_markers)
        #: Questions of partition leaders to the coordinators of transactions (KIP-890).
        self.verification = Lazy(self._make_verification)
        #: Topics that clients ask for and that do not exist.
        self.auto_creation = Lazy(self._make_auto_creation)
        #: Creates an internal topic, by its name; other coordinators add theirs.
        self.internal_topics: dict[str, Callable[[], None]] = {
            self.groups.topic: lambda: self.groups.ensure_topic(_ignore),
            TRANSACTION_STATE_TOPIC: lambda: self.transactions().ensure_topic(_ignore),
        }
        self.streams_topics = Lazy(self._make_streams_topics)
        hosted.pending.on_made.append(self._take_up)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        """Makes and drops shards by the roles of a new image, those of transactions whatever becomes of those of groups."""
        try:
            self.groups.apply(delta, image)
        finally:
            if self.transactions.made is not None or image.topic(TRANSACTION_STATE_TOPIC) is not None:
                self.transactions().apply(delta, image)
        return ()

    async def stop(self) -> None:
        made = self.transactions.made
        await stop_each((self.groups.stop,) if made is None else (made.stop, self.groups.stop))

    async def hand_over(self) -> None:
        """Writes what the next coordinators need, before leadership moves to other brokers."""
        await self.groups.hand_over()

    def create_topics(self, request: CreateTopicsRequest, created: Callable[[CreateTopicsResponse], None]) -> None:
        """Has the active controller create internal topics; see `CreateTopics`."""
        self._controller.driver.submit(request, request.newest_version(), created)

    def topic_creation(self) -> TopicCreation:
        """Returns what creates one internal topic."""
        from .topic_creation import TopicCreation

        return TopicCreation(self._node.config.metadata_log_dir, self._node.lines, self.create_topics)

    def _take_up(self, image: MetadataImage) -> None:
        """Follows partitions that exist later than the image that names them."""
        self.groups.take_up(image)
        if self.transactions.made is not None:
            self.transactions.made.take_up(image)

    # Parts.

    def _make_streams_topics(self) -> StreamsTopics:
        from .streams_topics import StreamsTopics

        return StreamsTopics(self._create_topics_for)

    def _make_transactions(self) -> TransactionDriver:
        from .transaction_driver import TransactionDriver

        return TransactionDriver(
            self._node.config,
            self._node.clock,
            self._partitions,
            Lazy(self.topic_creation),
            self._node.metadata,
            self._controller.producer_ids(),
            self.markers(),
        )

    def _make_markers(self) -> TransactionMarkers:
        from .transaction_markers import TransactionMarkers

        return TransactionMarkers(self._partitions, self._node.clock, self.groups, self._leaders, self._peers)

    def _make_verification(self) -> TransactionVerification:
        from .transaction_verification import TransactionVerification

        node = self._node
        return TransactionVerification(node.config, node.clock, self.transactions(), self._leaders, self._peers)

    def _make_auto_creation(self) -> AutoCreation:
        from .auto_creation import AutoCreation

        def create_internal(topic: str) -> None:
            self.internal_topics[topic]()

        return AutoCreation(self._controller.driver.submit, create_internal, self._node.lines)

    def _create_topics_for(
        self,
        request: CreateTopicsRequest,
        created: Callable[[CreateTopicsResponse], None],
        client: tuple[str, str] | None,
    ) -> None:
        """The same as `create_topics`, on behalf of a client; see `CreateTopicsFor`."""
        fields: ClientFields = {} if client is None else {"principal": client[0], "client_host": client[1]}
        self._controller.driver.submit(request, request.newest_version(), created, **fields)


def _ignore() -> None:
    """Ignores the outcome: the client asks for the topic again."""
