"""The functions that decode, handle and encode one version of one API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.apis import Api
from ...protocol.codec import lowered_decoder, lowered_encoder
from ...protocol.schema import Message
from ..runtime.counters import Times
from .answer_size import arrays_of

#: Responses with many items that brokers are made for: their own handlers bound the cost.
_ENCODED_WHOLE = ("ApiVersions", "Fetch", "Produce")

#: Requests that only brokers send: no quota holds for them.
_EXEMPT = ("WriteTxnMarkers",)

#: Takes a `Call`, which has a route: its class is not named here.
Handle = Callable[[Any], Message | None]


class Route:
    """The functions that decode, handle and encode one version of one API."""

    __slots__ = (
        "answer_version",
        "api",
        "arrays",
        "decode",
        "encode",
        "failures",
        "flexible",
        "flexible_answer",
        "handle",
        "handle_large",
        "is_exempt",
        "is_produce",
        "prepare",
        "requests",
        "times",
        "version",
    )

    def __init__(
        self,
        api: Api,
        version: int,
        handle: Handle,
        handle_large: Handle | None = None,
        answer_version: int | None = None,
        prepare: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self.api = api
        self.version = version
        #: Handles a request; `handle_large` one that has very many items.
        self.handle = handle
        self.handle_large = handle if handle_large is None else handle_large
        #: For a handler that must wait first: calls its argument when the handler may run, now or later.
        self.prepare = prepare
        #: Arrays of structures in the response: their lengths show whether it is large.
        self.arrays = arrays_of(api.response) if api.name not in _ENCODED_WHOLE else ()
        self.answer_version = version if answer_version is None else answer_version
        self.decode = lowered_decoder(api.request, version) if version in api.versions else None
        self.encode = lowered_encoder(api.response, self.answer_version)
        self.flexible = api.request_header_version(version) == 2
        self.flexible_answer = version in api.versions and api.response_header_version(version) == 1
        self.is_exempt = api.name in _EXEMPT
        self.is_produce = api.name == "Produce"
        #: Requests taken, and those of them that failed by a bug of ours.
        self.requests = 0
        self.failures = 0
        self.times = Times()
