"""Topics by regular expressions of their names (`--regex`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...admin.connection import Connection
from ...admin.topics import describe_topics
from ...client.error_kinds import ErrorKind
from ...client.user_errors import Misused, UserError


def matching_topics(connection: Connection, patterns: Sequence[str]) -> list[str]:
    """The topics, without internal ones, whose whole name matches an expression. Raises UserError where none does."""
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise Misused(f"{error.pattern!r} is not a regular expression: {error}") from None
    with connection.admin() as admin:
        described = describe_topics(admin, None)
    found = sorted(
        str(topic.name)
        for topic in described
        if not topic.is_internal and any(one.fullmatch(topic.name) for one in compiled)
    )
    if not found:
        raise UserError(
            f"no topic matches {', '.join(patterns)}; `odradek topic list` lists the topics", ErrorKind.NOT_FOUND
        )
    return found
