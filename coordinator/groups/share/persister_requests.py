"""Internal requests and responses of a share group's shard: the steps that involve the persister.

The caller of the shard sends the requests to the persister and reports the results to the shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ....protocol.errors import ErrorCode
from ....protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from ....protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from ....protocol.schema import Message, Request

Response = TypeVar("Response", bound=Message)
#: The version of requests that only this broker creates.
INTERNAL_VERSION = 0


@dataclass(eq=False)
class Followed(Message, Generic[Response]):
    """A response to a client, and the request that the persister gets with it (or before it, depending on the API)."""

    response: Response
    request: InitializeShareGroupStateRequest | DeleteShareGroupStateRequest | None


@dataclass(eq=False)
class StatesInitialized(Request["Done"]):
    """The persister has initialized the state of these partitions, or has failed to."""

    group_id: str
    partitions: dict[bytes, frozenset[int]]
    has_failed: bool = False


@dataclass(eq=False)
class StatesDeleted(Request["Done"]):
    """The persister has deleted the state of these topics."""

    group_id: str
    topic_ids: frozenset[bytes]


@dataclass(eq=False)
class DeletionOfGroups(Request["DeletionsOfStates"]):
    """A request to delete the share groups among these. Their state is deleted first."""

    group_ids: list[str]


@dataclass(eq=False)
class DeletionsOfStates(Message):
    """Group -> the request to the persister, or the error that prevents the deletion. Contains only share groups."""

    requests: dict[str, DeleteShareGroupStateRequest]
    errors: dict[str, ErrorCode]


@dataclass(eq=False)
class InitializedPartitions(Request["KnownPartitions"]):
    """A request for the partitions of a group that the persister has initialized. The response is `KnownPartitions`."""

    group_id: str


@dataclass(eq=False)
class KnownPartitions(Message):
    error: ErrorCode
    partitions: dict[bytes, frozenset[int]]


@dataclass(eq=False)
class Done(Message):
    """An acknowledgement. `error` is NONE, or the reason why the shard did not get the request."""

    error: ErrorCode = ErrorCode.NONE
