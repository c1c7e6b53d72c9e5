"""A request, or a part of one, that a coordinator does not accept."""

from __future__ import annotations

from typing import NamedTuple

from ..protocol.errors import ErrorCode


class Rejection(NamedTuple):
    """`message`: Kafka's words, None where it has none."""

    error: ErrorCode
    message: str | None
