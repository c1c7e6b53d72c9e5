"""The functions that decode, handle and encode one version of one API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.codec import lowered_decoder, lowered_encoder
from ..access.authorization.requirements import Nothing
from ..runtime.counters import Times
from .api_endpoint import ApiEndpoint, Cost
from .response_size import arrays_of

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from .call import BoundHandle

_UNLOADED = ApiEndpoint(authorization=(Nothing("No request is handled by it."),))


class Route:
    """The functions that decode, handle and encode one version of one API.

    `prepare`: for an endpoint that is not imported yet: calls its argument when it is, now or later.
    """

    __slots__ = (
        "api",
        "arrays",
        "decode",
        "encode",
        "endpoint",
        "failures",
        "flexible",
        "flexible_response",
        "handle",
        "handle_large",
        "is_exempt",
        "is_produce",
        "prepare",
        "requests",
        "response_version",
        "times",
        "version",
    )

    #: Handles a request; `handle_large` one that has very many items.
    handle: BoundHandle
    handle_large: BoundHandle

    def __init__(
        self,
        api: Api,
        version: int,
        response_version: int | None = None,
        prepare: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self.api = api
        #: The contract of the API; until it is imported, one that serves nothing.
        self.endpoint = _UNLOADED
        self.version = version
        self.prepare = prepare
        #: Arrays of structures in the response: their lengths show whether it is large.
        self.arrays = arrays_of(api.response)
        self.response_version = version if response_version is None else response_version
        self.decode = lowered_decoder(api.request, version) if version in api.versions else None
        self.encode = lowered_encoder(api.response, self.response_version)
        self.flexible = api.request_header_version(version) == 2
        self.flexible_response = version in api.versions and api.response_header_version(version) == 1
        self.is_exempt = self.is_produce = False
        #: Requests taken, and those of them that failed by a bug of ours.
        self.requests = 0
        self.failures = 0
        self.times = Times()

    @property
    def is_served(self) -> bool:
        """Returns False until the endpoint is imported."""
        return self.endpoint is not _UNLOADED

    def serve(self, endpoint: ApiEndpoint, handle: BoundHandle, handle_large: BoundHandle) -> None:
        """Serves by an endpoint. `handle`: its handler, bound to the node; `handle_large` handles in portions."""
        self.endpoint = endpoint
        self.handle = handle if endpoint.handles_many_whole else handle_large
        self.handle_large = handle_large
        if endpoint.encodes_many_whole:
            self.arrays = ()
        self.is_exempt = endpoint.cost is Cost.NOTHING
        self.is_produce = endpoint.cost is Cost.PRODUCED
