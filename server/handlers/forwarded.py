"""The APIs whose requests go as they are to the part that answers them.

Handlers that do more have a file of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..api.authorization import cluster_error, denies, denies_on_cluster, group_error
from ..api.quorum_queries import ask_leader
from ..network.call import BROKER, CONTROLLER, Call
from ..services import NodeServices, Services


def to_controller(services: NodeServices, call: Call) -> Message | None:
    """The active controller decides, wherever it is; the response is sent when this node has the published result. A
    controller that is not active returns NOT_CONTROLLER to its own clients.
    """
    is_asked_itself = call.listener_kind == CONTROLLER and not services.controller.is_alone
    (services.controller.decide if is_asked_itself else services.controller.submit)(
        call.request,
        call.version,
        call.reply_forwarded,
        principal=call.principal,
        client_host=call.client_host,
        client_id=call.client_id,
        is_token_authenticated=call.is_token_authenticated,
    )
    return None


def to_this_controller(services: NodeServices, call: Call) -> Message | None:
    """A request of another node to the active controller: other controllers reply NOT_CONTROLLER."""
    services.controller.decide(
        call.request, call.version, call.reply, principal=call.principal, client_host=call.client_host
    )
    return None


def to_broker_sessions(services: NodeServices, call: Call) -> Message | None:
    """A broker's registration or heartbeat; the active controller answers it."""
    if validation_error := cluster_error(services, call, Operation.CLUSTER_ACTION):
        return validation_error
    broker_sessions = services.broker_sessions
    assert broker_sessions is not None, "a node without a controller has no controller listener"
    broker_sessions.ask(call.request, call.version, call.reply, call.connection)
    return None


def to_quorum(services: NodeServices, call: Call) -> Message | None:
    """A request of another voter."""
    if validation_error := cluster_error(services, call, Operation.CLUSTER_ACTION):
        return validation_error
    services.controller.quorum_request(call, call.request)
    return None


def to_quorum_leader(services: NodeServices, call: Call) -> Message | None:
    """The leader of the quorum answers; a broker asks it."""
    if validation_error := cluster_error(services, call, Operation.ALTER):
        return validation_error
    if call.listener_kind == BROKER and not services.controller.is_active:
        ask_leader(services, call)
    else:
        services.controller.quorum_request(call, call.request)
    return None


def to_group_coordinator(services: Services, call: Call) -> Message | None:
    if validation_error := group_error(services, call):
        return validation_error
    services.groups.submit(call.request.group_id, call.request, call.version, call, call.reply)
    return None


def to_transaction_coordinator(services: Services, call: Call) -> Message | None:
    transactional_id = call.request.transactional_id
    if denies(services, call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        response: Any = call.api.response()
        response.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        validation_error: Message = response
        return validation_error
    services.transactions().submit(transactional_id, call.request, call.version, call, call.reply)
    return None


def to_share_coordinator(services: Services, call: Call) -> None:
    """A request of another broker."""
    from ..coordinators.persister import reject_all, submit_here

    if denies_on_cluster(services, call, Operation.CLUSTER_ACTION):
        reject_all(call.request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, call.reply)
        return
    submit_here(services.share_states(), call.request, call.version, call, call.reply)


#: Handlers by the API's module. The decision is in a file under replication/ or coordinator/.
FORWARDED: dict[str, Callable[[Services, Call], Message | None]] = {
    "alter_partition_reassignments": to_controller,  # controller/reassignments.py (KIP-455)
    "alter_user_scram_credentials": to_controller,  # controller/security/scram_credentials.py (KIP-554)
    "create_partitions": to_controller,  # controller/partitions.py
    "create_topics": to_controller,  # controller/topics.py
    "delete_topics": to_controller,  # controller/topics.py
    "elect_leaders": to_controller,  # controller/elections.py: preferred and unclean elections (KIP-460)
    "list_partition_reassignments": to_controller,  # controller/reassignments.py (KIP-455)
    "unregister_broker": to_controller,  # controller/brokers.py (KIP-631)
    "unregister_controller": to_controller,  # controller/brokers.py (KIP-1312)
    "update_features": to_controller,  # controller/features.py (KIP-584)
    "allocate_producer_ids": to_this_controller,  # a block of producer ids for a broker (KIP-730)
    "alter_partition": to_this_controller,  # controller/alter_partition.py: changes an ISR (KIP-497)
    "assign_replicas_to_dirs": to_this_controller,  # the directories of a broker's replicas (KIP-858)
    "controller_registration": to_this_controller,  # what a controller of the quorum supports (KIP-919)
    "broker_registration": to_broker_sessions,  # controller/brokers.py: a broker's incarnation (KIP-631)
    "broker_heartbeat": to_broker_sessions,  # server/cluster/broker_sessions.py (KIP-631)
    "vote": to_quorum,  # quorum/elections.py (KIP-595, KIP-853, KIP-996)
    "begin_quorum_epoch": to_quorum,  # quorum/replica.py: a new leader makes itself known (KIP-595, KIP-853)
    "end_quorum_epoch": to_quorum,  # quorum/following.py: the leader steps down (KIP-595)
    "fetch_snapshot": to_quorum,  # quorum/leading.py: for followers that lag far behind (KIP-630)
    "update_raft_voter": to_quorum,  # quorum/voter_changes.py: a voter's new endpoints (KIP-853)
    "add_raft_voter": to_quorum_leader,  # quorum/voter_changes.py (KIP-853)
    "remove_raft_voter": to_quorum_leader,  # quorum/voter_changes.py (KIP-853)
    "heartbeat": to_group_coordinator,  # groups/classic/sync.py
    "sync_group": to_group_coordinator,  # groups/classic/sync.py: waits for the leader's assignments
    "end_txn": to_transaction_coordinator,  # transactions/ends.py
    "initialize_share_group_state": to_share_coordinator,  # share_state/operations.py; between brokers, as the next four
    "read_share_group_state": to_share_coordinator,
    "read_share_group_state_summary": to_share_coordinator,
    "write_share_group_state": to_share_coordinator,
    "delete_share_group_state": to_share_coordinator,
}
