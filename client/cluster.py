"""Requests to a cluster, each of which waits for its response: for commands, pages and tests, from any thread.

The connections are those that nodes have to one another (`peers.py`), on an event loop of a thread of its own. Node and
coordinator are looked up for each request that names one, so no old place is kept.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..protocol.apis import APIS
from ..protocol.messages.api_versions import ApiVersionsRequest
from ..protocol.messages.metadata import FindCoordinatorRequest, MetadataRequest
from ..protocol.schema import Message
from .any_broker import ANY_S, only_reads
from .errors import CoordinatorError, LoginRejected, NoResponse, NotSupported, UnknownNode
from .peers import LoginOf, Peers, TlsOf

#: Types of coordinators in FindCoordinator.
GROUP_COORDINATOR, TRANSACTION_COORDINATOR = 0, 1
_BATCHED_SINCE = 4


class Address(NamedTuple):
    host: str
    port: int
    name: str = ""


class Cluster:
    """A cluster, known by the addresses of some of its brokers. `login` and `tls`: see `Peers`."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        client_id: str,
        timeout_s: float,
        login: LoginOf = lambda listener: None,
        tls: TlsOf = lambda listener, host: {},
    ) -> None:
        self._bootstrap = list(bootstrap)
        self._timeout_s = timeout_s
        self._nodes: dict[int, Address] = {}
        #: The address that responded last: one that is down costs the pause before each attempt to connect.
        self._last: Address | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._faults: dict[tuple[str, int], str] = {}
        self._peers = Peers(client_id, login, tls)
        self._peers.on_fault = self._note_fault
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="odradek-client", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends all connections, and the thread."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._peers.close)
        asyncio.run_coroutine_threadsafe(_settled(), self._loop).result(self._timeout_s)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---- requests

    def ask(self, request: Message, node_id: int | None = None) -> Any:
        """Sends a request, in the newest version that both sides have, to a node or to any. Returns the response.

        Raises NoResponse, UnknownNode and NotSupported.
        """
        return self._sent(request, self.version_of(request), node_id)

    def version_of(self, request: Message) -> int:
        """The newest version of the request that both sides have. Raises NotSupported and NoResponse."""
        key = type(request).SCHEMA.key
        assert key is not None, f"{type(request).__name__} is not a request"
        api = APIS[key]
        low, high = self.versions().get(key, (0, -1))
        version = min(high, api.latest_stable_version)
        if version < max(low, api.versions.low):
            raise NotSupported(api.name)
        return version

    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The lowest and highest version of each API, as the first broker that responds has them. Raises NoResponse."""
        if not self._versions:
            response = self._sent(
                ApiVersionsRequest(client_software_name="odradek-cli", client_software_version="1"), None, None
            )
            self._versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        return self._versions

    def coordinator(self, key: str, kind: int = GROUP_COORDINATOR) -> int:
        """The node that coordinates a group or a transactional id. Raises CoordinatorError."""
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        response = self.ask(request)
        found = response.coordinators[0] if self.version_of(request) >= _BATCHED_SINCE else response
        if found.error_code:
            raise CoordinatorError(found.error_code, found.error_message)
        return int(found.node_id)

    def _sent(self, request: Message, version: int | None, node_id: int | None) -> Any:
        addresses = self._any() if node_id is None else [self._address(node_id)]
        # One that hangs must not hold up those that any broker answers. Where all are slow, each gets its time.
        is_short = node_id is None and len(addresses) > 1 and only_reads(request) and self._timeout_s > ANY_S
        late = []
        for address in addresses:
            began = time.monotonic()
            response = self._response(address, request, version, ANY_S if is_short else self._timeout_s)
            if response is not None:
                self._last = address
                return response
            if is_short and time.monotonic() - began >= ANY_S:
                late.append(address)
        for address in late:
            response = self._response(address, request, version, self._timeout_s)
            if response is not None:
                self._last = address
                return response
        words = ", ".join(f"{host}:{port}" for host, port, _ in addresses)
        faults = [fault for host, port, _ in addresses if (fault := self._faults.get((host, port)))]
        if faults:
            raise LoginRejected(f"{words}: {faults[0]}")
        raise NoResponse(f"no response from {words}")

    def _any(self) -> list[Address]:
        """The addresses that may serve any request: those of the command first, since the others may be out of reach."""
        known = [*self._bootstrap, *(one for one in self._nodes.values() if one not in self._bootstrap)]
        return sorted(known, key=lambda one: one != self._last)

    def _address(self, node_id: int) -> Address:
        """The node's address in the metadata of now."""
        response = self.ask(MetadataRequest(topics=[]))
        self._nodes = {one.node_id: Address(one.host, one.port) for one in response.brokers}
        if node_id not in self._nodes:
            raise UnknownNode(f"broker {node_id} is not in the metadata")
        return self._nodes[node_id]

    def _response(self, address: Address, request: Message, version: int | None, timeout_s: float) -> Any:
        found: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(self._send, address, request, version, timeout_s, found)
        return found.result()

    def _send(
        self,
        address: Address,
        request: Message,
        version: int | None,
        timeout_s: float,
        found: concurrent.futures.Future[Any],
    ) -> None:
        self._faults.pop((address.host, address.port), None)
        self._peers.send(address, request, found.set_result, timeout_ms=max(1, int(timeout_s * 1000)), version=version)

    def _note_fault(self, host: str, port: int, fault: str) -> None:
        self._faults[host, port] = fault


async def _settled() -> None:
    """Lets the loop take what the end of the connections has left it."""
    for _ in range(3):
        await asyncio.sleep(0)
