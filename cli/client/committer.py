"""A committer of offsets with the properties of a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...admin.connection import Connection
from ...admin.offset_committer import OffsetCommitter

#: Limit of a connection and of a request of commits.
_TIMEOUT_S = 10.0


def new_committer(client: Mapping[str, str], on_error: Callable[[str], None] | None = None) -> OffsetCommitter:
    """The committer connects when it has a commit. `client`: Kafka's client properties. `on_error`: shows a failure."""
    connection = Connection(dict(client), _TIMEOUT_S)
    return OffsetCommitter(connection.admin) if on_error is None else OffsetCommitter(connection.admin, on_error)
