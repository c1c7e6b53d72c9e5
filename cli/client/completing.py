"""Values that the shell completes: names of contexts, and of topics of the cluster in use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .errors import CommandError

if TYPE_CHECKING:
    from ...client.cluster import Cluster

#: A person waits for it.
_TIMEOUT_S = 2.0


def complete_context(incomplete: str) -> list[str]:
    from .contexts import read_contexts

    try:
        return [name for name in sorted(read_contexts().named) if name.startswith(incomplete)]
    except CommandError:
        return []


def complete_topic(incomplete: str) -> list[str]:
    """Topics of the current context's cluster, or of 127.0.0.1:9092; nothing when it does not answer."""
    return _names(_topics, incomplete)


def complete_group(incomplete: str) -> list[str]:
    """Groups of the same cluster."""
    return _names(_groups, incomplete)


def _names(read: Callable[[Cluster], Iterable[str]], incomplete: str) -> list[str]:
    import os

    from .connection import connection_of

    try:
        bootstrap = os.environ.get("ODRADEK_BOOTSTRAP_SERVER")
        # The client of kafka-python takes 0.15 s to load.
        with contextlib.closing(connection_of(bootstrap, None, None, [], _TIMEOUT_S).cluster()) as cluster:
            return [name for name in sorted(read(cluster)) if name.startswith(incomplete)]
    except Exception:
        return []


def _topics(cluster: Cluster) -> Iterable[str]:
    from ...protocol.messages.metadata import MetadataRequest

    return [topic.name for topic in cluster.ask(MetadataRequest(topics=None)).topics if not topic.is_internal]


def _groups(cluster: Cluster) -> Iterable[str]:
    from ...client.errors import NoResponse
    from ...protocol.messages.list_groups import ListGroupsRequest
    from ...protocol.messages.metadata import MetadataRequest

    found: set[str] = set()
    for broker in cluster.ask(MetadataRequest(topics=[])).brokers:
        with contextlib.suppress(NoResponse):
            found.update(group.group_id for group in cluster.ask(ListGroupsRequest(), broker.node_id).groups)
    return found
