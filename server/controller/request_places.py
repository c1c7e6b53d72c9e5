"""Places of requests about the metadata of the cluster: the active controller, this controller, the quorum, its leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...protocol.error_responses import error_response
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message, Request
from ..network.api_endpoint import Place
from ..network.call import Call
from ..network.listener_kind import BROKER, CONTROLLER
from .driver import QuorumDriver

if TYPE_CHECKING:
    from ...protocol.schema import ResponseCallback
    from ..network.call import ClientConnection
    from ..network.subsystem import NetworkSubsystem

#: Timeout of a broker that asks the leader of the quorum.
_TIMEOUT_MS = 30_000


class AskSessions(Protocol):
    """Has the active controller decide a broker's registration or heartbeat. See BrokerSessionWatch."""

    def ask(self, request: Request, version: int, reply: ResponseCallback, connection: ClientConnection) -> None: ...


class QuorumPart(Protocol):
    """The controller's subsystem, as these handlers use it."""

    @property
    def driver(self) -> QuorumDriver: ...
    @property
    def sessions(self) -> AskSessions | None: ...


class QuorumServices(Protocol):
    """The parts of a node that these handlers use."""

    @property
    def controller(self) -> QuorumPart: ...
    @property
    def network(self) -> NetworkSubsystem: ...


def to_controller(services: QuorumServices, call: Call) -> None:
    """Has the active controller decide, on any node. The response is sent when the active controller has published the
    result; this node may still have an older image, as with Apache Kafka. A controller that is not active returns
    NOT_CONTROLLER to its own clients.
    """
    is_asked_itself = call.listener_kind == CONTROLLER and not services.controller.driver.is_alone
    (services.controller.driver.decide if is_asked_itself else services.controller.driver.submit)(
        call.request,
        call.version,
        call.reply_forwarded,
        principal=call.principal,
        client_host=call.client_host,
        client_id=call.client_id,
        is_token_authenticated=call.is_token_authenticated,
    )


def to_this_controller(services: QuorumServices, call: Call) -> None:
    """Has the controller of this node decide a request of another node; others return NOT_CONTROLLER."""
    services.controller.driver.decide(
        call.request, call.version, call.reply, principal=call.principal, client_host=call.client_host
    )


def to_quorum(services: QuorumServices, call: Call) -> None:
    """Hands over a request of another voter."""
    services.controller.driver.quorum_request(call, call.request)


def to_quorum_leader(services: QuorumServices, call: Call) -> None:
    """Has the leader of the quorum answer; a broker asks it."""
    if call.listener_kind == BROKER and not services.controller.driver.is_active:
        ask_leader(services, call)
    else:
        services.controller.driver.quorum_request(call, call.request)


def ask_leader(services: QuorumServices, call: Call) -> None:
    """Sends the request unchanged to the leader of the quorum, and its response to the client; NOT_CONTROLLER when no
    leader answers.
    """
    endpoint = services.controller.driver.leader_endpoint

    def answered(response: Message | None) -> None:
        if response is None:
            response = error_response(call.api.response, call.version, call.request, ErrorCode.NOT_CONTROLLER)
        call.reply(response)

    if endpoint is None:
        answered(None)
    else:
        services.network.peers().send(
            endpoint, call.request, answered, timeout_ms=_TIMEOUT_MS, version=call.version, purpose="questions"
        )


def to_broker_sessions(services: QuorumServices, call: Call) -> None:
    """Has the active controller decide a broker's registration or heartbeat."""
    broker_sessions = services.controller.sessions
    assert broker_sessions is not None, "a node without a controller has no controller listener"
    broker_sessions.ask(call.request, call.version, call.reply, call.connection)


ACTIVE_CONTROLLER = Place("the active controller", to_controller, is_controller=True, is_enveloped=True)
#: For requests between nodes: their senders find the active controller themselves.
THIS_CONTROLLER = Place("the active controller, which its sender must find", to_this_controller, is_controller=True)
QUORUM = Place("the quorum's state machine of this node", to_quorum)
#: Apache Kafka's brokers forward these requests in an Envelope, ours as they are.
QUORUM_LEADER = Place("the leader of the quorum", to_quorum_leader, is_enveloped=True)
BROKER_SESSIONS = Place("the active controller, by way of its sessions of brokers", to_broker_sessions)
