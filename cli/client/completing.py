"""Values that the shell completes: names of contexts, and of topics of the cluster in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .errors import CommandError

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
    return _names(lambda admin: admin.list_topics(), incomplete)


def complete_group(incomplete: str) -> list[str]:
    """Groups of the same cluster."""
    return _names(lambda admin: [one["group_id"] for one in admin.list_groups()], incomplete)


def _names(read: Callable[[Any], Iterable[str]], incomplete: str) -> list[str]:
    import os

    from .connection import connection_of

    try:
        bootstrap = os.environ.get("ODRADEK_BOOTSTRAP_SERVER")
        with connection_of(bootstrap, None, None, [], _TIMEOUT_S).admin() as admin:
            return [name for name in sorted(read(admin)) if name.startswith(incomplete)]
    except Exception:
        return []
