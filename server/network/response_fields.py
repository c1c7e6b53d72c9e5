"""Fields that many responses have: the throttle time, and the error of the whole request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...protocol.schema import Message


def set_throttle_time(response: Message, throttle_time_ms: int) -> None:
    """Sets the throttle time of a response that has the field; versions without it do not send it."""
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_time_ms


def has_error_code(response: Message, version: int) -> bool:
    """Returns True if a response of that version has a field for an error of the whole request."""
    return any(field.name == "error_code" and version in field.versions for field in response.SCHEMA.fields)
