"""The interface of an authorizer, which a class of a user's own implements.

It is named by `authorizer.class.name=python:package.module:Name`, see docs/specialists/security-classes.md. The node
makes one instance, calls `configure` if there is one, then `authorize` for each decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from ....metadata.acls import Operation, ResourceType
from ....metadata.image import AclImage


class RequestContext(NamedTuple):
    """The client of a request. `principal`: "User:alice"; `host`: the client's address; `api`: its name, as "Produce"."""

    principal: str
    host: str
    api: str


class Action(NamedTuple):
    """An operation on a resource. `name` is "kafka-cluster" for the type CLUSTER."""

    operation: Operation
    resource_type: ResourceType
    name: str


@runtime_checkable
class Authorizer(Protocol):
    """Decides what a client may do.

    `authorize` is called on the event loop, for each topic of each request: it must answer at once, from memory. An
    exception denies the action and is logged.
    """

    def authorize(self, context: RequestContext, action: Action) -> bool:
        """Returns whether the client may do it."""


@runtime_checkable
class FollowsAcls(Protocol):
    """An authorizer that uses the access rules of the cluster: only with it CreateAcls and its like are served."""

    def acls_changed(self, changes: Mapping[bytes, AclImage | None]) -> None:
        """Takes the rules that are new, by id, and None for those that are removed. Called before the first decision."""
