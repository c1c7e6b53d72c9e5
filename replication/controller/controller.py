"""The controller: decides on changes of the cluster, and replays decided records.

`Controller.handle` changes nothing. It returns records and a response. The driver of the controller appends the
records to the metadata log and replays them here at once, so that the next decision sees them. It sends the response
to the client after the records are committed and published. When leadership is lost, the controller is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..random_source import RandomSource
from .activation import activation_records
from .policies import Policies
from .result import MAX_RECORDS_PER_REQUEST, ControllerResult, RequestError
from .sessions import BrokerSessions
from .state import ANONYMOUS, Caller, ControllerState, ElectionCount, MutationQuota

Decision = Callable[[ControllerState, Any, int], ControllerResult]
#: The decision function of each request: module, function. Modules are imported on first use, which keeps startup
#: short.
DECISIONS = {
    "AlterClientQuotas": ("client_quotas", "alter_client_quotas"),
    "AllocateProducerIds": ("producer_ids", "allocate_producer_ids"),
    "AlterConfigs": ("configs", "alter_configs"),
    "AlterPartitionReassignments": ("reassignments", "alter_partition_reassignments"),
    "AlterPartition": ("alter_partition", "alter_partition"),
    "AlterUserScramCredentials": ("scram_credentials", "alter_user_scram_credentials"),
    "AssignReplicasToDirs": ("replica_directories", "assign_replicas_to_directories"),
    "BalanceLeaders": ("maintenance", "balance_leaders"),
    "BrokerHeartbeat": ("brokers", "heartbeat"),
    "BrokerRegistration": ("brokers", "register_broker"),
    "ControllerRegistration": ("brokers", "register_controller"),
    "CreateAcls": ("acls", "create_acls"),
    "CreateDelegationToken": ("delegation_tokens", "create_delegation_token"),
    "CreatePartitions": ("partitions", "create_partitions"),
    "CreateTopics": ("topic_creation", "create_topics"),
    "DeleteAcls": ("acls", "delete_acls"),
    "DeleteTopics": ("topic_deletion", "delete_topics"),
    "ElectLeaders": ("elections", "elect_leaders"),
    "ElectUncleanLeaders": ("maintenance", "elect_unclean_leaders"),
    "ExpireDelegationToken": ("delegation_tokens", "expire_delegation_token"),
    "FenceBroker": ("maintenance", "fence_broker"),
    "IncrementalAlterConfigs": ("configs", "incremental_alter_configs"),
    "MoveLeaders": ("maintenance", "move_leaders"),
    "ListPartitionReassignments": ("reassignments", "list_partition_reassignments"),
    "RemoveExpiredTokens": ("delegation_tokens", "remove_expired_tokens"),
    "RenewDelegationToken": ("delegation_tokens", "renew_delegation_token"),
    "UnregisterBroker": ("brokers", "unregister_broker"),
    "UnregisterController": ("brokers", "unregister_controller"),
    "UpdateFeatures": ("features", "update_features"),
    "WriteNoOp": ("maintenance", "write_no_op"),
}
#: Requests that time out before they are processed. The others have no deadline here.
_EXPIRE = ("AlterPartitionReassignments", "CreatePartitions", "CreateTopics", "DeleteTopics", "ElectLeaders")


@cache
def _decision(api: str) -> Decision:
    module, function = DECISIONS[api]
    found: Decision = getattr(import_module(f".{module}", __package__), function)
    return found


def error_response(request: Message, version: int, request_error: RequestError) -> Message:
    """Returns the error response, see error_responses.py."""
    from .error_responses import error_response as made

    return made(request, version, request_error)


def _too_many_records(api: str) -> RequestError:
    """Returns the error for too many records. In Kafka, only CreatePartitions has no error message for it."""
    if api == "CreatePartitions":
        return RequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return RequestError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


class Controller:
    """The controller. `static`: the raw values of this node's own properties, overridden by the cluster's configs.

    `rng`: see `RandomSource`. `kraft_upgrade_error`: the reason why the quorum cannot raise kraft.version to a level
    now, or None. `uses_acls`: whether access rules have an effect. `policies`: a user's own policies.
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        static: Mapping[str, str],
        rng: RandomSource,
        kraft_upgrade_error: Callable[[int], str | None] = lambda level: None,
        *,
        uses_acls: bool = False,
        policies: Policies | None = None,
    ) -> None:
        self._state = ControllerState(node_id, cluster_id, static, rng)
        self._state.uses_acls = uses_acls
        if policies is not None:
            self._state.policies = policies
        self._state.kraft_upgrade_error = kraft_upgrade_error

    @property
    def image(self) -> MetadataImage:
        """Returns the cluster with all decided records, committed or not."""
        return self._state.image

    @property
    def next_offset(self) -> int:
        """Returns the metadata log offset of the next decided record."""
        return self._state.next_offset

    @property
    def sessions(self) -> BrokerSessions:
        """Returns the broker sessions. The driver reports heartbeats and the time to it."""
        return self._state.sessions

    @property
    def elections(self) -> ElectionCount:
        return self._state.elections

    def registers_alone(self, alone: bool) -> None:
        """Notes whether this node, the only voter, registers its own broker: see `brokers.register_broker`."""
        self._state.registers_alone = alone

    def learn(self, image: MetadataImage) -> Iterator[None]:
        """Runs the slow part of `load` in steps. With the same topics and access rules prepared, `load` is fast."""
        return self._state.learn(image)

    def load(self, image: MetadataImage, next_offset: int, kraft_version: int) -> None:
        """Takes over with an image of everything in the log before `next_offset`."""
        self._state.load(image, next_offset, kraft_version)

    def activate(self, bootstrap: Sequence[Message], *, transaction_open: bool) -> Sequence[Message]:
        """Returns the first records of the active controller, see `activation_records`. They must be committed
        atomically.
        """
        return activation_records(self._state, bootstrap, transaction_open)

    def handle(
        self, request: Message, version: int, quota: MutationQuota | None = None, caller: Caller = ANONYMOUS
    ) -> ControllerResult:
        """Decides on a request of an API in `DECISIONS`. Every API error is in the response; exceptions are bugs.

        `quota`: the client's quota of created and deleted partitions, if it has one. `caller`: the client.
        """
        self._state.mutation_quota = quota
        self._state.caller = caller
        api = type(request).__name__.removesuffix("Request")
        try:
            if api in _EXPIRE and getattr(request, "timeout_ms", 1) <= 0:
                raise RequestError(ErrorCode.REQUEST_TIMED_OUT)
            result = _decision(api)(self._state, request, version)
            if result.atomic and len(result.records) > MAX_RECORDS_PER_REQUEST:
                raise _too_many_records(api)
        except RequestError as request_error:
            return ControllerResult([], error_response(request, version, request_error))
        return result._replace(records=[], kraft_version=0) if result.validate_only else result

    def replay(self, records: Sequence[Message], epoch: int, append_timestamp_ms: int) -> None:
        """Replays the records of one decision, located at `next_offset` and after. They were appended in `epoch`."""
        self._state.replay(records, epoch, append_timestamp_ms)
