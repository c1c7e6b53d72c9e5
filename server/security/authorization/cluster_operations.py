"""The APIs that need one operation on the cluster, wherever they are handled."""

from __future__ import annotations

from ....metadata.acls import Operation
from ....protocol.errors import ErrorCode
from ....replication.controller.result import RequestError

#: Decided by the active controller: API -> operation.
CONTROLLER_OPERATIONS: dict[str, Operation] = {
    "AllocateProducerIds": Operation.CLUSTER_ACTION,
    "AlterClientQuotas": Operation.ALTER_CONFIGS,
    "AlterPartition": Operation.CLUSTER_ACTION,
    "AlterPartitionReassignments": Operation.ALTER,
    "AlterUserScramCredentials": Operation.ALTER,
    "AssignReplicasToDirs": Operation.CLUSTER_ACTION,
    "BrokerHeartbeat": Operation.CLUSTER_ACTION,
    "BrokerRegistration": Operation.CLUSTER_ACTION,
    "ControllerRegistration": Operation.CLUSTER_ACTION,
    "CreateAcls": Operation.ALTER,
    "DeleteAcls": Operation.ALTER,
    "ElectLeaders": Operation.ALTER,
    "ListPartitionReassignments": Operation.DESCRIBE,
    "UnregisterBroker": Operation.ALTER,
    "UnregisterController": Operation.ALTER,
    "UpdateFeatures": Operation.ALTER,
}


#: Kafka's general words for the error. Answers of most APIs name the operation instead.
DENIED_ON_CLUSTER = "Cluster authorization failed."
_GENERAL_WORDS = ("AddRaftVoter", "AlterClientQuotas", "DescribeQuorum", "RemoveRaftVoter")


def rejected(api: str, operation: Operation) -> RequestError:
    """Returns the error of a request that needs an operation on the cluster."""
    words = DENIED_ON_CLUSTER if api in _GENERAL_WORDS else f"Request needs {operation.name} permission."
    return RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, words)
