"""Names that a topic may have. librdkafka ends a name at a NUL, and would describe another topic."""

from __future__ import annotations

import re

from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_topic_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def check_topic_name(name: str) -> None:
    """Raises UserError for a name that no topic has."""
    if not is_topic_name(name):
        raise UserError(
            f"there is no topic {name[:300]!r}: names have up to 249 letters, digits, '.', '_' and '-'",
            ErrorKind.NOT_FOUND,
        )
