"""Values that the shell completes: names of contexts, and of topics of the cluster in use."""

from __future__ import annotations

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
    import os

    from .connection import connection_of

    try:
        bootstrap = os.environ.get("ODRADEK_BOOTSTRAP_SERVER")
        with connection_of(bootstrap, None, None, [], _TIMEOUT_S).admin() as admin:
            return [name for name in sorted(admin.list_topics()) if name.startswith(incomplete)]
    except Exception:
        return []
