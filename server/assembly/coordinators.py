"""Makes the coordinators of groups, transactions and the state of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..coordinators.coordinator_driver import GroupDriver
from ..coordinators.topic_creation import CREATE_TOPICS_VERSION, TopicCreation
from ..share.subsystem import ShareSubsystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from ..controller.commits import ClientFields
    from ..coordinators.topic_creation import CreateTopics, StreamsTopics
    from ..coordinators.transaction_driver import TransactionDriver, TransactionMarkers
    from ..coordinators.transaction_verification import TransactionVerification
    from ..node import Node


def create_topics(node: Node) -> CreateTopics:
    return lambda request, created: node.controller.submit(request, CREATE_TOPICS_VERSION, created)


def topic_creation(node: Node) -> TopicCreation:
    return TopicCreation(node.config.metadata_log_dir, node.lines, create_topics(node))


def streams_topics(node: Node) -> StreamsTopics:
    from ..coordinators.topic_creation import StreamsTopics

    def create_topics_for(
        request: CreateTopicsRequest, created: Callable[[CreateTopicsResponse], None], client: tuple[str, str] | None
    ) -> None:
        fields: ClientFields = {} if client is None else {"principal": client[0], "client_host": client[1]}
        node.controller.submit(request, CREATE_TOPICS_VERSION, created, **fields)

    return StreamsTopics(create_topics_for)


def groups(node: Node) -> GroupDriver:
    return GroupDriver(
        node.config, node.clock, node.partitions, topic_creation(node), node.metadata.image, node.late_imports
    )


def transaction_markers(node: Node) -> TransactionMarkers:
    from ..coordinators.transaction_driver import TransactionMarkers

    return TransactionMarkers(node.partitions, node.clock, node.groups, node.leaders, node.peers)


def transactions(node: Node) -> TransactionDriver:
    from ..coordinators.transaction_driver import TransactionDriver

    return TransactionDriver(
        node.config,
        node.clock,
        node.partitions,
        topic_creation(node),
        node.metadata,
        node.producer_ids(),
        node.transaction_markers(),
    )


def transaction_verification(node: Node) -> TransactionVerification:
    from ..coordinators.transaction_verification import TransactionVerification

    return TransactionVerification(node.config, node.clock, node.transactions(), node.leaders, node.peers)


def share(node: Node) -> ShareSubsystem:
    return ShareSubsystem(
        node.config,
        node.clock,
        node.metadata,
        node.metrics,
        node.pools,
        node.listeners,
        node.partitions,
        node.leaders,
        node.groups,
        node.fetch_path,
        node.peers,
        topic_creation(node),
        create_topics(node),
    )
