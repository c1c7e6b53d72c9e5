"""A frame becomes a `Call`; the call goes to its API's handler; the response becomes the pieces of a response.

Two lists decide what is served: `protocol/apis.py` and the files in `endpoints/`. The first request of a key and version
makes its route, so a broker's start pays for no codec.

A peer that breaks the protocol (unknown key, unsupported version, bytes that are not the message) raises
`ProtocolViolation`, and the connection closes with its words in the log. ApiVersions alone answers a version that it
does not know (KIP-511).
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.apis import APIS, Api
from ...protocol.codec import DECODE_FAULTS, MalformedMessage, decode
from ...protocol.headers import RequestHeader
from ...protocol.schema import Request, has_records
from ..access.authorization.requirements import AuthorizerNotReady
from .api_endpoint import ApiEndpoint
from .call import Call, ClientConnection, Observer
from .late_endpoint import LateEndpoint
from .listener_kind import ListenerKind
from .no_request import NO_REQUEST
from .observers import Observers, Timing
from .protocol_violation import ProtocolViolation
from .response_fields import has_error_code
from .route import Route

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from ..access.quotas.sensors import Meters
    from .call import BoundHandle, CallRoute
    from .slow_calls import SlowRequests

log = logging.getLogger("odradek.dispatch")

#: Key, version, correlation id and length of the client id: how every request header begins.
_HEADER = struct.Struct(">hhih")

#: A larger frame is decoded in steps (large_requests.py). A smaller one has at most some 5,000 items, which takes 3 ms.
SLICED_FRAME_BYTES = 16 * 1024
#: The header of a request ends within so many bytes, or is refused. Clients send 50.
MAX_HEADER_BYTES = 64 * 1024


class Endpoints(Protocol):
    """The endpoints of the node."""

    def __contains__(self, api: Api) -> bool:
        """Returns whether the node serves this API."""

    def is_loaded(self, api: Api) -> bool:
        """Returns whether the endpoint of a served API is imported."""

    def when_loaded(self, api: Api, then: Callable[[], None]) -> None:
        """Calls `then` when the endpoint is imported, now or later."""

    def load(self, api: Api) -> ApiEndpoint:
        """Returns the endpoint of a served API. Imports it if it is not imported yet. Raises NotServed."""

    def bound(self, endpoint: ApiEndpoint, listener_kind: ListenerKind) -> BoundHandle:
        """Returns the handler of an endpoint, bound to the node."""


class NotServed(Exception):
    """An endpoint does not say how its API is authorized."""


class Dispatcher:
    """The APIs that one kind of listener serves."""

    def __init__(self, kind: ListenerKind, endpoints: Endpoints) -> None:
        self._kind = kind
        self._endpoints = endpoints
        #: The APIs that this listener serves and advertises, by key.
        self.served: dict[int, Api] = {
            key: api for key, api in APIS.items() if kind in api.listeners and api in endpoints
        }
        self._routes: dict[tuple[int, int], Route] = {}
        #: Called with each new route: a test kit puts its faults before the handlers. None in a broker of its own.
        self.on_route: Callable[[Route], object] | None = None
        self._is_metered = self._observes_all = False
        #: The log of slow requests; None unless odradek.slow.request.ms is set.
        self._slow_requests: SlowRequests | None = None
        #: Bytes of the frame at hand.
        self.frame_bytes = 0

    def meter(self, on: bool) -> None:
        """Begins or ends to record what calls cost."""
        self._is_metered = on
        self._observes_all = on or self._slow_requests is not None

    def watch(self, limit_ms: int) -> None:
        """Begins to time every call, for a log of those that take as long."""
        from .slow_calls import SlowRequests

        self._slow_requests = SlowRequests(limit_ms)
        self._observes_all = True

    def _observer(self, call: Call, *, is_timed: bool) -> Observer:
        """Returns what follows a call: one of the few that are timed, or any while there are quotas or the log is on."""
        if not self._observes_all:
            return Timing()
        observers: list[Observer] = [Timing()] if is_timed or self._slow_requests is not None else []
        if self._is_metered:
            from .metering import Metering

            observers.append(Metering(call))
        if self._slow_requests is not None:
            from .slow_calls import SlowLog

            observers.append(SlowLog(call, self._slow_requests))
        return observers[0] if len(observers) == 1 else Observers(*observers)

    def call(self, connection: ClientConnection, frame: Buffer) -> None:
        """Handles one frame (without its length). Raises ProtocolViolation."""
        self.frame_bytes = frame_bytes = len(frame)
        try:
            key, version, correlation_id, size = _HEADER.unpack_from(frame)
            route = self._routes.get((key, version)) or self._route(key, version)
            pos = 10
            client_id = None
            if size >= 0:
                pos += size
                raw = frame[10:pos]
                client_id = connection.client_id if raw == connection.client_id_bytes else connection.learn(raw)
            elif size != -1:
                raise ValueError("negative length")
            if route.flexible:
                if frame[pos]:
                    pos = decode(RequestHeader, 2, bytes(frame[:MAX_HEADER_BYTES]))[1]
                else:
                    pos += 1
            if frame_bytes > SLICED_FRAME_BYTES:
                self._call_large(connection, route, correlation_id, client_id, frame, pos)
                return
            request: Request = NO_REQUEST
            if route.decode is not None:
                request, pos = route.decode(frame, pos)
            if pos > frame_bytes:
                raise IndexError("header longer than the frame")
        except DECODE_FAULTS as error:
            raise self.violation_of(frame, error) from None
        route.requests = count = route.requests + 1
        call = Call(connection, route, correlation_id, client_id, request)
        is_timed = count & 63 == 1  # the first of 64: reading a clock twice costs more than counting
        if is_timed or self._observes_all:
            meters = connection.meters
            if (
                meters is not None
                and route.is_produce
                and not is_timed
                and self._slow_requests is None
                and client_id is not None
            ):
                began_ns = perf_counter_ns()
                if meters.takes_produce(frame_bytes, began_ns):
                    self._handle_granted(call, route, meters, began_ns)
                    return
            call.observer = self._observer(call, is_timed=is_timed)
        self.handle(call, route, route.handle)

    def _handle_granted(self, call: Call[Any], route: Route, meters: Meters, began_ns: int) -> None:
        """Handles a Produce that leads to no throttle."""
        from .metering import GRANTED_PRODUCE

        call.observer = GRANTED_PRODUCE
        is_answered = bool(call.request.acks)
        self.handle(call, route, route.handle)
        if is_answered and (requests := meters.requests) is not None:
            requests.owed_ns += perf_counter_ns() - began_ns

    def _call_large(
        self,
        connection: ClientConnection,
        route: Route,
        correlation_id: int,
        client_id: str | None,
        frame: Buffer,
        pos: int,
    ) -> None:
        """The same for a frame that may have any number of items."""
        from .large_requests import take

        route.requests = count = route.requests + 1
        call = Call(connection, route, correlation_id, client_id, NO_REQUEST)
        is_timed = count & 63 == 1
        if is_timed or self._observes_all:
            call.observer = self._observer(call, is_timed=is_timed)
        if route.decode is None or take(self, connection, route, call, frame, pos):
            self.handle(call, route, route.handle)

    def handle(self, call: Call, route: CallRoute, handle: BoundHandle) -> None:
        """Has a handler answer the call, now or later. Raises ProtocolViolation."""
        try:
            response = handle(call)
            if response is not None:
                call.reply(response)
            if call.pieces is None and not call.is_parked:
                call.connection.park(call)
        except ProtocolViolation:
            raise
        except Exception as failure:
            self._failed(call, route, failure)

    def failed_later(self, call: Call, route: CallRoute, failure: Exception) -> None:
        """The call was to be answered in slices, and one of them has failed."""
        if isinstance(failure, ProtocolViolation):
            call.connection.close_for(str(failure))
        else:
            self._failed(call, route, failure)

    def _failed(self, call: Call, route: CallRoute, failure: Exception) -> None:
        if isinstance(failure, AuthorizerNotReady):
            call.fail()
            return
        route.failures += 1
        connection = call.connection
        kind = (route.api.name, route.version, type(failure))
        words = f"a bug: {route.api.name} v{route.version} from {connection.client_host} failed"
        connection.listener.shared.lines.log(log, logging.ERROR, connection.client_host, kind, words, failure)
        call.fail()

    def validation_error(
        self, connection: ClientConnection, frame: Buffer, error_code: int
    ) -> Callable[[], None] | None:
        """Parks a call for a frame whose body is not to be read; the result answers it with the error. None where the
        response of that API has no field for one. Raises ProtocolViolation.
        """
        try:
            key, version, correlation_id, _ = _HEADER.unpack_from(frame)
        except struct.error as error:
            raise self.violation_of(frame, error) from None
        call = Call(connection, self._route(key, version), correlation_id, None, NO_REQUEST)
        response: Any = call.api.response()
        if not has_error_code(response, call.route.response_version):
            return None
        response.error_code = error_code
        connection.park(call)
        return lambda: call.reply(response)

    def routes(self) -> Iterable[Route]:
        """Returns the routes that were used so far."""
        return self._routes.values()

    def handler(self, api: Api) -> BoundHandle:
        """Returns the handler of an API that is served here. Raises NotServed."""
        return self._endpoints.bound(self._endpoints.load(api), self._kind)

    def prepare(self, key: int, version: int) -> None:
        """Makes the route of a served API before a request takes it."""
        if key in self.served and (key, version) not in self._routes:
            self._route(key, version)

    def _route(self, key: int, version: int) -> Route:
        api = self.served.get(key)
        if api is None:
            raise ProtocolViolation(
                f"request with API key {key}, version {version}, which is not served on this listener"
            )
        if version in api.versions and version <= api.latest_stable_version:
            route = self._new_route(api, version)
        elif api.has_response_to_any_version:
            # The response is of version 0, the one that every client can read. Not kept: versions are the peer's to invent.
            return self._new_route(api, version, response_version=0)
        else:
            raise ProtocolViolation(f"{api.name} request of version {version}; this broker has {api.versions}")
        if self.on_route is not None:
            self.on_route(route)
        self._routes[key, version] = route
        return route

    def _new_route(self, api: Api, version: int, response_version: int | None = None) -> Route:
        """Returns a new route, which serves at once if the endpoint is imported. Otherwise requests wait for that, on a
        thread; a request with batches of records cannot, since they are views of the receive buffer.
        """
        endpoints = self._endpoints
        if endpoints.is_loaded(api) or has_records(api.request):
            route = Route(api, version, response_version)
            self._serve(route)
            return route
        late = LateEndpoint(self.serve_late, endpoints.when_loaded)
        late.route = route = Route(api, version, response_version, late.prepare)
        route.handle = route.handle_large = late
        return route

    def _serve(self, route: Route) -> None:
        try:
            endpoint = self._endpoints.load(route.api)
        except NotServed as error:
            raise ProtocolViolation(str(error)) from None
        handle = handle_large = self._endpoints.bound(endpoint, self._kind)
        if endpoint.portionings:
            from .portioned_call import in_portions

            handle_large = in_portions(endpoint, handle)
        route.serve(endpoint, handle, handle_large)

    def serve_late(self, late: LateEndpoint) -> Route:
        """Has a route serve by its endpoint, which is imported now. A test kit that has put faults before `late` puts them
        before the handlers. Raises ProtocolViolation.
        """
        route = late.route
        has_faults = route.handle is not late
        self._serve(route)
        late.handle = route.handle
        if has_faults and self.on_route is not None:
            self.on_route(route)
        return route

    def violation_of(self, frame: Buffer, error: Exception) -> ProtocolViolation:
        """The fault of a frame, in the words of the interpreted codec unless it is large."""
        try:
            key, version = struct.unpack_from(">hh", frame)
            api = APIS[key]
            header = bytes(frame[:MAX_HEADER_BYTES])
            _, pos = decode(RequestHeader, api.request_header_version(version), header)
            if len(frame) > SLICED_FRAME_BYTES:
                return ProtocolViolation(f"malformed {api.name} v{version} request of {len(frame)} bytes")
            decode(api.request, version, frame, pos)
        except MalformedMessage as explained:
            return ProtocolViolation(f"malformed {api.name} request: {explained}")
        except (struct.error, KeyError):
            return ProtocolViolation(f"a frame of {len(frame)} bytes, too short for a request header")
        return ProtocolViolation(f"malformed {api.name} request: {error}")
