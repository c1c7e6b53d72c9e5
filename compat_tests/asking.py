"""Requests that any broker of a cluster may answer, while some may be down. None stands for no response."""

from __future__ import annotations

from typing import Any

from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.schema import Message

from .wire import WireClient

#: Key types of FindCoordinator.
GROUP, SHARE = 0, 2
_TIMEOUT_S = 10


def ask(address: str, request: Message, version: int) -> Any:
    try:
        with WireClient(address, timeout=_TIMEOUT_S) as client:
            return client.call(request, version)
    except OSError:
        return None


def ask_any(bootstrap: str, request: Message, version: int) -> Any:
    """Returns the first response of any broker."""
    for address in bootstrap.split(","):
        response = ask(address, request, version)
        if response is not None:
            return response
    return None


def coordinator_of(bootstrap: str, key: str, key_type: int = GROUP) -> Any:
    """Returns `node_id`, `host` and `port` of the broker that coordinates `key`."""
    response = ask_any(bootstrap, FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 6)
    one = None if response is None else response.coordinators[0]
    return None if one is None or one.error_code else one


def described(bootstrap: str, topic: str) -> Any:
    """Returns the topic's metadata if each of its partitions has a leader."""
    response = ask_any(bootstrap, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    found = None if response is None else response.topics[0]
    return None if found is None or found.error_code or any(p.error_code for p in found.partitions) else found
