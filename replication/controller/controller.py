"""The controller: decides what changes in the cluster, and replays what was decided.

`handle` changes nothing. It returns records and a response; whoever drives the controller appends the records to the
metadata log, has them replayed here at once, so that the next decision sees them, and gives the response to its client
when they are committed and published. When leadership is lost the controller is dropped whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ...protocol.messages.alter_configs import AlterConfigsRequest
from ...protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ...protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ...protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ...protocol.messages.broker_registration import BrokerRegistrationRequest
from ...protocol.messages.controller_registration import ControllerRegistrationRequest
from ...protocol.messages.create_partitions import CreatePartitionsRequest
from ...protocol.messages.create_topics import CreateTopicsRequest
from ...protocol.messages.delete_topics import DeleteTopicsRequest
from ...protocol.messages.elect_leaders import ElectLeadersRequest
from ...protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ...protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ...protocol.messages.unregister_broker import UnregisterBrokerRequest
from ...protocol.messages.update_features import UpdateFeaturesRequest
from ...protocol.schema import Message
from .bootstrap import activation_records
from .brokers import heartbeat, register_broker, register_controller, unregister_broker
from .chance import Chance
from .configs import alter_configs, incremental_alter_configs
from .directories import assign_replicas_to_directories
from .elections import elect_leaders
from .features import update_features
from .partitions import create_partitions
from .producer_ids import allocate_producer_ids
from .reassignments import alter_partition_reassignments, list_partition_reassignments
from .refusals import refuse
from .result import MAX_RECORDS_PER_REQUEST, ControllerResult, RefusedRequest
from .state import ControllerState
from .topics import create_topics, delete_topics

Decision = Callable[[ControllerState, Any, int], ControllerResult]

DECISIONS: dict[type[Message], Decision] = {
    AllocateProducerIdsRequest: allocate_producer_ids,
    AlterConfigsRequest: alter_configs,
    AlterPartitionReassignmentsRequest: alter_partition_reassignments,
    AssignReplicasToDirsRequest: assign_replicas_to_directories,
    BrokerHeartbeatRequest: heartbeat,
    BrokerRegistrationRequest: register_broker,
    ControllerRegistrationRequest: register_controller,
    CreatePartitionsRequest: create_partitions,
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    ElectLeadersRequest: elect_leaders,
    IncrementalAlterConfigsRequest: incremental_alter_configs,
    ListPartitionReassignmentsRequest: list_partition_reassignments,
    UnregisterBrokerRequest: unregister_broker,
    UpdateFeaturesRequest: update_features,
}


def _too_many_records(request: Message) -> RefusedRequest:
    """CreatePartitions alone has no words for it in Kafka."""
    if isinstance(request, CreatePartitionsRequest):
        return RefusedRequest(ErrorCode.UNKNOWN_SERVER_ERROR)
    return RefusedRequest(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


#: Requests whose time is over when it begins with nothing. The others have no deadline here.
_EXPIRE: tuple[type[Message], ...] = (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
)


class Controller:
    """`static`: the texts of this node's own properties, under what the cluster configures. `chance`: see `Chance`."""

    def __init__(self, node_id: int, cluster_id: str, static: Mapping[str, str], chance: Chance) -> None:
        self._state = ControllerState(node_id, cluster_id, static, chance)

    @property
    def image(self) -> MetadataImage:
        """The cluster with everything that was decided, committed or not."""
        return self._state.image

    @property
    def next_offset(self) -> int:
        """Where the next record that is decided will stand in the metadata log."""
        return self._state.next_offset

    def load(self, image: MetadataImage, next_offset: int, kraft_version: int) -> None:
        """Takes over: begins with an image of everything in the log before `next_offset`."""
        self._state.load(image, next_offset, kraft_version)

    def activate(self, bootstrap: Sequence[Message], *, transaction_open: bool) -> Sequence[Message]:
        """The records with which it begins, see `activation_records`; they are to be committed whole."""
        return activation_records(self._state, bootstrap, transaction_open)

    def handle(self, request: Message, version: int) -> ControllerResult:
        """Decides on one request of `DECISIONS`. Every refusal is in the response; exceptions are bugs."""
        try:
            if type(request) in _EXPIRE and request.timeout_ms <= 0:  # type: ignore[attr-defined]
                raise RefusedRequest(ErrorCode.REQUEST_TIMED_OUT)
            result = DECISIONS[type(request)](self._state, request, version)
            if result.atomic and len(result.records) > MAX_RECORDS_PER_REQUEST:
                raise _too_many_records(request)
        except RefusedRequest as refused:
            return ControllerResult([], refuse(request, refused))
        return result._replace(records=[]) if result.validate_only else result

    def replay(self, records: Sequence[Message], epoch: int, append_timestamp_ms: int) -> None:
        """The records of one decision, which stand at `next_offset` and after it. They were appended in `epoch`."""
        self._state.replay(records, epoch, append_timestamp_ms)
