"""What is asked of a share group's shard, and answered by it, besides what clients ask: the steps in which the persister
has a part. Whoever drives the shard sends it the requests and tells the shard what came of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from ...protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from ...protocol.schema import Message

Response = TypeVar("Response", bound=Message)


@dataclass(eq=False)
class Followed(Message, Generic[Response]):
    """A response that is due, and what the persister is to be asked then (or before, where the request says so)."""

    response: Response
    request: InitializeShareGroupStateRequest | DeleteShareGroupStateRequest | None


@dataclass(eq=False)
class StatesInitialized(Message):
    """The persister has begun these partitions' states; or could not."""

    group_id: str
    partitions: dict[bytes, frozenset[int]]
    has_failed: bool = False


@dataclass(eq=False)
class StatesDeleted(Message):
    """The persister has forgotten all of these topics."""

    group_id: str
    topic_ids: frozenset[bytes]


@dataclass(eq=False)
class DeletionOfGroups(Message):
    """Share groups among these are to be deleted: their states first."""

    group_ids: list[str]


@dataclass(eq=False)
class DeletionsOfStates(Message):
    """Group -> what the persister is asked, or why the group may not be deleted. Groups of other kinds are not in it."""

    requests: dict[str, DeleteShareGroupStateRequest]
    refused: dict[str, ErrorCode]


@dataclass(eq=False)
class InitializedPartitions(Message):
    """Which partitions of a group the persister knows. The answer is a `KnownPartitions`."""

    group_id: str


@dataclass(eq=False)
class KnownPartitions(Message):
    error: ErrorCode
    partitions: dict[bytes, frozenset[int]]


@dataclass(eq=False)
class Done(Message):
    """`error` is NONE, or why the shard could not be told."""

    error: ErrorCode = ErrorCode.NONE
