"""Requirements that several APIs share: on the cluster, a group, a transactional id."""

from __future__ import annotations

from operator import attrgetter
from typing import Protocol

from ....metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ....protocol.errors import ErrorCode
from ....protocol.schema import Message
from .requirements import WORDS, Needs

#: The words of a denial that some APIs have in place of those for the operation.
IN_GENERAL_WORDS = WORDS[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


def on_cluster(operation: Operation, message: str | None = None, *, log_denied: bool = True) -> Needs[Message]:
    """`message`: the words of a denial, where they are not Kafka's for the operation."""
    words = f"Request needs {operation.name} permission." if message is None else message
    return Needs(operation, ResourceType.CLUSTER, lambda request: CLUSTER_NAME, words, log_denied)


#: The requirement of requests between nodes.
OF_NODES = on_cluster(Operation.CLUSTER_ACTION)


class NamesGroup(Protocol):
    """A request about one group."""

    @property
    def group_id(self) -> str | None: ...


class NamesTransactionalId(Protocol):
    """A request about one transactional id."""

    @property
    def transactional_id(self) -> str | None: ...


def on_group(operation: Operation = Operation.READ, message: str | None = None) -> Needs[NamesGroup]:
    return Needs(operation, ResourceType.GROUP, attrgetter("group_id"), message)


def on_transactional_id() -> Needs[NamesTransactionalId]:
    return Needs(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, attrgetter("transactional_id"))
