"""The request of a call that has not been decoded, or whose request was freed: views of a buffer that others use."""

from __future__ import annotations

from typing import Any

from ...protocol.schema import Message, Request, struct


@struct
class NoRequest(Request[Message]):
    """A request without fields."""


#: Replaces a request of any class.
NO_REQUEST: Any = NoRequest()
