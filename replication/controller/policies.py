"""A user's own policies for the creation of topics and the change of configurations (KIP-108, KIP-133).

The active controller calls them, after every other check. A violation is answered with POLICY_VIOLATION and its text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from ...metadata.configs import ConfigResourceType
from ...protocol.errors import ErrorCode
from .result import ApiError

log = logging.getLogger("odradek.policies")

RequestT = TypeVar("RequestT")


class PolicyViolation(Exception):
    """A policy refuses a request. The client gets the words."""


class TopicCreation(NamedTuple):
    """A topic that is to be created. With `replicas_assignments`, the replicas of each partition, the client has chosen
    the brokers, and partitions and replication factor are None; otherwise these are set, from defaults too.
    """

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: Mapping[int, Sequence[int]] | None
    #: Those that the client sets.
    configs: Mapping[str, str]


class ConfigAlteration(NamedTuple):
    """A change of a resource's configuration. `configs`: the values that change; None for a key that is removed."""

    resource_type: ConfigResourceType
    resource_name: str
    configs: Mapping[str, str | None]


@runtime_checkable
class CreateTopicPolicy(Protocol):
    """Decides which topics may be created. It runs in the event loop of the controller: it must answer at once."""

    def validate(self, request: TopicCreation) -> None:
        """Raises PolicyViolation for a topic that may not be created."""


@runtime_checkable
class AlterConfigPolicy(Protocol):
    """Decides which configurations may be altered. It runs in the event loop of the controller: it must answer at once.

    The configs of a new topic are an alteration, too.
    """

    def validate(self, request: ConfigAlteration) -> None:
        """Raises PolicyViolation for a change that may not be made."""


class Policies(NamedTuple):
    """The policies of a controller; None where there is none."""

    create_topic: CreateTopicPolicy | None = None
    alter_config: AlterConfigPolicy | None = None


def violation(validate: Callable[[RequestT], None], request: RequestT) -> ApiError | None:
    """Returns the error of a request that a policy refuses, with Kafka's words: none where the violation has none.

    A policy that fails refuses, too.
    """
    try:
        validate(request)
    except PolicyViolation as violated:
        return ApiError(ErrorCode.POLICY_VIOLATION, str(violated) if violated.args else None)
    except Exception:
        log.exception("your own policy failed; the request is rejected")
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None
