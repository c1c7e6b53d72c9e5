"""Values of options that the shell completes: names of contexts, topics and groups.

Topics and groups are of the cluster in use: that of the
current context, of ODRADEK_BOOTSTRAP_SERVER, or 127.0.0.1:9092. A person waits, so these requests take a connection that
blocks (0.04 s to load, with the codecs) in place of the clients of the commands (0.08 s and 0.15 s). Settings of TLS and
SASL take effect as in commands; what they need is loaded only then.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from ...admin.connection import Connection, connection_of
from ...client.security_options import login_of
from ...client.user_errors import UserError

if TYPE_CHECKING:
    from ...client.blocking import BlockingConnection

T = TypeVar("T")
#: A person waits for it: the limit for each broker.
_TIMEOUT_S = 2.0
#: Versions that every Kafka since 0.10 has; these lists need nothing of later ones.
_METADATA_VERSION, _LIST_GROUPS_VERSION = 1, 0


def complete_context(incomplete: str) -> list[str]:
    from ...client.contexts import read_contexts

    try:
        return [name for name in sorted(read_contexts().named) if name.startswith(incomplete)]
    except UserError:
        return []


def complete_topic(incomplete: str) -> list[str]:
    """Topics of the cluster; nothing when it does not respond."""
    return _names(_topics, incomplete)


def complete_group(incomplete: str) -> list[str]:
    """Groups of the same cluster."""
    return _names(_groups, incomplete)


def _names(read: Callable[[Connection], Iterable[str]], incomplete: str) -> list[str]:

    try:
        connection = connection_of(os.environ.get("ODRADEK_BOOTSTRAP_SERVER"), None, None, [], _TIMEOUT_S)
        return [name for name in sorted(read(connection)) if name.startswith(incomplete)]
    except Exception:
        return []


def _topics(connection: Connection) -> Iterable[str]:
    from ...protocol.messages.metadata import MetadataRequest

    every = MetadataRequest(topics=None)
    topics = _of_any(connection, lambda broker: broker.ask(every, _METADATA_VERSION).topics)
    return [topic.name for topic in topics if topic.name is not None and not topic.is_internal]


def _groups(connection: Connection) -> Iterable[str]:
    """Asks every broker: a group is in the list of its coordinator only."""
    from ...protocol.messages.list_groups import ListGroupsRequest
    from ...protocol.messages.metadata import MetadataRequest

    none = MetadataRequest(topics=[])
    found: set[str] = set()
    for one in _of_any(connection, lambda broker: broker.ask(none, _METADATA_VERSION).brokers):
        with contextlib.suppress(OSError), _connected(connection, (one.host, one.port)) as broker:
            found.update(group.group_id for group in broker.ask(ListGroupsRequest(), _LIST_GROUPS_VERSION).groups)
    return found


def _of_any(connection: Connection, step: Callable[[BlockingConnection], T]) -> T:
    """Runs the step with the first address that responds. Raises OSError."""
    for address in connection.addresses:
        with contextlib.suppress(OSError), _connected(connection, address) as broker:
            return step(broker)
    raise OSError("no broker responds")


def _connected(
    connection: Connection, address: tuple[str, int]
) -> contextlib.AbstractContextManager[BlockingConnection]:
    from ...client.blocking import BlockingConnection

    login = login_of(connection.security)
    return contextlib.closing(BlockingConnection(address, connection.client_id, _TIMEOUT_S, connection.tls, login))
