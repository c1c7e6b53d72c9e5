"""Validation of topic names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from ...protocol.errors import ErrorCode
from .result import ApiError

MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_fault(name: str) -> str | None:
    """Returns what is wrong with a name, in Kafka's text; None if it is valid."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_name(name: str) -> ApiError | None:
    fault = topic_name_fault(name)
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}") if fault else None


def has_collision_chars(name: str) -> bool:
    """Returns whether a name contains "." or "_": names that differ only in these have the same metric name in Kafka."""
    return "." in name or "_" in name


def unified(name: str) -> str:
    return name.replace(".", "_")


def check_collision(name: str, existing: Mapping[str, Set[str]]) -> ApiError | None:
    """Rejects a name that collides with an existing one. `existing`: unified names to topics."""
    colliding = existing.get(unified(name)) if has_collision_chars(name) else None
    if not colliding:
        return None
    message = f"Topic '{name}' collides with existing topic: {min(colliding)}"
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
