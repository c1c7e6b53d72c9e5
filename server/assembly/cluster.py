"""Makes the parts that work with other nodes: peers, the quorum, the cluster, replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..controller.driver import QuorumDriver
from ..controller.registration import Registration
from ..publisher import Publisher
from ..runtime.internal_topics import SHARE_GROUP_STATE_TOPIC

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...metadata.image import BrokerImage
    from ..controller.auto_creation import AutoCreation
    from ..controller.broker_lifecycle import BrokerLifecycle
    from ..controller.broker_sessions import BrokerSessionWatch
    from ..controller.channel import Forwarding
    from ..controller.producer_ids import ProducerIds
    from ..controller.stopped_brokers import StoppedBrokers
    from ..controller.tasks import TokenExpiry
    from ..node import Node


def auto_creation(node: Node) -> AutoCreation:
    from ..controller.auto_creation import AutoCreation

    def create_internal(topic: str) -> None:
        if topic == SHARE_GROUP_STATE_TOPIC:
            node.share.states().ensure_topic(lambda: None)
        else:
            node.coordinators.ensure_topic(topic)

    return AutoCreation(node.controller.submit, create_internal, node.lines)


def producer_ids(node: Node) -> ProducerIds:
    from ..controller.producer_ids import ProducerIds

    return ProducerIds(node.node_id, lambda: node.controller.broker_epoch, node.controller.submit)


def controller(node: Node) -> QuorumDriver:
    made = QuorumDriver(
        node.config,
        registration(node),
        node.clock,
        node.peers,
        node.lines,
        node.pools,
        Publisher(node),
        node.access.quotas,
        node.halt,
        node.access.authorizer,
        node.access.policies,
        node.background,
        node.endpoints.of_request,
    )
    made.forward = lambda *request, **client: node.forwarding().submit(*request, **client)
    made.register_controller = lambda: _register_controller(node)
    return made


def registration(node: Node) -> Registration:
    """Makes the requests in which this node registers. Its cluster id and directories must be known."""
    return Registration(node.node_id, node.cluster_id, node.config, node.listeners, node.directories)


def _register_controller(node: Node) -> None:
    from ..controller.controller_registration import ControllerRegistrar

    ControllerRegistrar(node.clock, node.metadata, node.controller, node.forwarding, registration(node)).start()


# Parts of nodes in a cluster of several.


def broker_sessions(node: Node) -> BrokerSessionWatch:
    from ..controller.broker_sessions import BrokerSessionWatch
    from ..controller.tasks import PeriodicTasks

    def suspect(broker: BrokerImage) -> None:
        if node.stopped_brokers is not None:
            node.stopped_brokers.look_for(broker)

    tasks = PeriodicTasks(node.config, node.clock, node.controller)
    made = BrokerSessionWatch(node.node_id, node.clock, node.metadata, node.controller, tasks, suspect)
    node.listeners.on_connection_lost.append(made.connection_lost)
    return made


def token_expiry(node: Node) -> TokenExpiry:
    from ..controller.tasks import TokenExpiry

    return TokenExpiry(node.config, node.clock, node.controller)


def stopped_brokers(node: Node) -> StoppedBrokers:
    from ..controller.stopped_brokers import StoppedBrokers

    return StoppedBrokers(node.metadata, node.peers)


def lifecycle(node: Node) -> BrokerLifecycle:
    from ..controller.broker_lifecycle import BrokerLifecycle

    return BrokerLifecycle(
        node.config,
        node.clock,
        node.metadata,
        node.controller,
        registration(node),
        node.forwarding,
        node.broker_sessions,
        lambda: any(hosted.role.is_leader for hosted in node.partitions.hosted.values()),
        node.listeners,
    )


def lifecycle_of_lone_voter(node: Node) -> BrokerLifecycle:
    """Makes the lifecycle of a broker that its own controller registered when it was alone."""
    made = lifecycle(node)
    made.continue_lone_voter()
    return made


def forwarding(node: Node) -> Forwarding:
    from ..controller.channel import Forwarding

    return Forwarding(node.controller, node.peers, node.clock)


def peers(node: Node) -> Peers:
    from ...client.peers import Peers

    return Peers(f"odradek-{node.node_id}", node.access.sasl.login, node.listeners.tls.connection_arguments)
