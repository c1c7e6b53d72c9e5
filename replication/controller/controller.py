"""The controller: decides what changes in the cluster, and replays what was decided.

`handle` changes nothing. It returns records and a response; whoever drives the controller appends the records to the
metadata log, has them replayed here at once, so that the next decision sees them, and gives the response to its client
when they are committed and published. When leadership is lost the controller is dropped whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from .bootstrap import activation_records
from .chance import Chance
from .result import MAX_RECORDS_PER_REQUEST, ControllerResult, RefusedRequest
from .sessions import BrokerSessions
from .state import ControllerState, Elections

Decision = Callable[[ControllerState, Any, int], ControllerResult]

#: Who decides on a request: module, function. They are imported when they are first asked, which keeps a start short.
DECISIONS = {
    "AllocateProducerIds": ("producer_ids", "allocate_producer_ids"),
    "AlterConfigs": ("configs", "alter_configs"),
    "AlterPartitionReassignments": ("reassignments", "alter_partition_reassignments"),
    "AlterPartition": ("alter_partition", "alter_partition"),
    "AssignReplicasToDirs": ("directories", "assign_replicas_to_directories"),
    "BalanceLeaders": ("upkeep", "balance_leaders"),
    "BrokerHeartbeat": ("brokers", "heartbeat"),
    "BrokerRegistration": ("brokers", "register_broker"),
    "ControllerRegistration": ("brokers", "register_controller"),
    "CreatePartitions": ("partitions", "create_partitions"),
    "CreateTopics": ("topics", "create_topics"),
    "DeleteTopics": ("topics", "delete_topics"),
    "ElectLeaders": ("elections", "elect_leaders"),
    "ElectUncleanLeaders": ("upkeep", "elect_unclean_leaders"),
    "FenceBroker": ("upkeep", "fence_broker"),
    "IncrementalAlterConfigs": ("configs", "incremental_alter_configs"),
    "MoveLeaders": ("upkeep", "move_leaders"),
    "ListPartitionReassignments": ("reassignments", "list_partition_reassignments"),
    "UnregisterBroker": ("brokers", "unregister_broker"),
    "UnregisterController": ("brokers", "unregister_controller"),
    "UpdateFeatures": ("features", "update_features"),
    "WriteNoOp": ("upkeep", "write_no_op"),
}
#: Requests whose time is over when it begins with nothing. The others have no deadline here.
_EXPIRE = ("AlterPartitionReassignments", "CreatePartitions", "CreateTopics", "DeleteTopics", "ElectLeaders")


@cache
def _decision(api: str) -> Decision:
    module, function = DECISIONS[api]
    found: Decision = getattr(import_module(f".{module}", __package__), function)
    return found


def refuse(request: Message, refused: RefusedRequest) -> Message:
    """The response that says so, see refusals.py."""
    from .refusals import refuse as refusal

    return refusal(request, refused)


def _too_many_records(api: str) -> RefusedRequest:
    """CreatePartitions alone has no words for it in Kafka."""
    if api == "CreatePartitions":
        return RefusedRequest(ErrorCode.UNKNOWN_SERVER_ERROR)
    return RefusedRequest(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


class Controller:
    """`static`: the texts of this node's own properties, under what the cluster configures. `chance`: see `Chance`.
    `kraft_upgrade_refusal`: why the quorum cannot raise kraft.version to a level now, or None.
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        static: Mapping[str, str],
        chance: Chance,
        kraft_upgrade_refusal: Callable[[int], str | None] = lambda level: None,
    ) -> None:
        self._state = ControllerState(node_id, cluster_id, static, chance)
        self._state.kraft_upgrade_refusal = kraft_upgrade_refusal

    @property
    def image(self) -> MetadataImage:
        """The cluster with everything that was decided, committed or not."""
        return self._state.image

    @property
    def next_offset(self) -> int:
        """Where the next record that is decided will stand in the metadata log."""
        return self._state.next_offset

    @property
    def sessions(self) -> BrokerSessions:
        """Who is heard; the driver tells it of heartbeats and of time."""
        return self._state.sessions

    @property
    def elections(self) -> Elections:
        return self._state.elections

    def learn(self, image: MetadataImage) -> Iterator[None]:
        """What takes a while of a `load`, in steps: done before, for an image with the same topics, the load is short."""
        return self._state.learn(image.topics)

    def load(self, image: MetadataImage, next_offset: int, kraft_version: int) -> None:
        """Takes over: begins with an image of everything in the log before `next_offset`."""
        self._state.load(image, next_offset, kraft_version)

    def activate(self, bootstrap: Sequence[Message], *, transaction_open: bool) -> Sequence[Message]:
        """The records with which it begins, see `activation_records`; they are to be committed whole."""
        return activation_records(self._state, bootstrap, transaction_open)

    def handle(self, request: Message, version: int) -> ControllerResult:
        """Decides on a request of one of the APIs in `DECISIONS`. Every refusal is in the response; exceptions are bugs."""
        api = type(request).__name__.removesuffix("Request")
        try:
            if api in _EXPIRE and getattr(request, "timeout_ms", 1) <= 0:
                raise RefusedRequest(ErrorCode.REQUEST_TIMED_OUT)
            result = _decision(api)(self._state, request, version)
            if result.atomic and len(result.records) > MAX_RECORDS_PER_REQUEST:
                raise _too_many_records(api)
        except RefusedRequest as refused:
            return ControllerResult([], refuse(request, refused))
        return result._replace(records=[], kraft_version=0) if result.validate_only else result

    def replay(self, records: Sequence[Message], epoch: int, append_timestamp_ms: int) -> None:
        """The records of one decision, which stand at `next_offset` and after it. They were appended in `epoch`."""
        self._state.replay(records, epoch, append_timestamp_ms)
