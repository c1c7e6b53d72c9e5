"""Requests that the client libraries do not know, by the client of `odradek.client` and the codecs of odradek.protocol."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import COORDINATOR_MOVES, UNREACHABLE, CommandError, CoordinatorMoves

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from .admin import RequestSender

_PATIENCE_S, _PAUSE_S = 30.0, 0.2
T = TypeVar("T")


def ask(admin: RequestSender, request: Message, node_id: int | None = None) -> Any:
    """Sends a request, in the newest version that both sides have, to a node or to any. Raises CommandError, and
    ConnectionError without a response.
    """
    from ...client.errors import NotSupported

    try:
        return admin.requests.ask(request, node_id)
    except NotSupported as error:
        raise CommandError(f"the brokers do not support {error}: use a newer version") from None


def coordinator_now(admin: RequestSender, group: str) -> int:
    """The node that coordinates a group. Raises CoordinatorMoves where there is none at the moment."""
    from ...client.errors import CoordinatorError

    try:
        return int(admin.requests.coordinator(group))
    except CoordinatorError as error:
        from .admin_calls import api_error

        if error.code in COORDINATOR_MOVES:
            raise CoordinatorMoves(
                f"group {group} has no coordinator at the moment: try again later", UNREACHABLE
            ) from None
        raise api_error(f"group {group}", error.code, error.message) from None


def coordinator_of(admin: RequestSender, group: str) -> int:
    """Works as `coordinator_now`, and waits while a new cluster has none."""
    return patiently(admin, lambda: coordinator_now(admin, group))


def patiently(admin: RequestSender, step: Callable[[], T]) -> T:
    """Runs a step that asks coordinators, again while they load or move to other nodes. Raises CommandError."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return step()
        except CoordinatorMoves:
            if time.monotonic() > deadline:
                raise
        admin.forget_places()
        time.sleep(_PAUSE_S)
