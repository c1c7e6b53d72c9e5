"""Requests to a cluster, each of which waits for its response: for commands, pages and tests, from any thread.

The connections are those that nodes have to one another (`peers.py`), on an event loop of a thread of its own. A coordinator
is looked up for each request, and a node's address every second, so no old place is kept.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Sequence
from typing import Generic, NamedTuple

from ..protocol.coordinator_types import GROUP
from ..protocol.messages.find_coordinator import FindCoordinatorRequest
from ..protocol.messages.metadata import MetadataRequest, MetadataResponse
from ..protocol.schema import Request, ResponseT
from .any_broker import ANY_S, only_reads
from .errors import CoordinatorError, InvalidOptions, LoginRejected, NoResponse, NotKafka, NotSupported, UnknownNode
from .faults import Fault, Kind, explained
from .peers import LoginOf, Peers, TlsOf
from .port_security import fault_of_port
from .versions import Version

#: Addresses of nodes are looked up again after this time, and after a request without a response.
FRESH_S = 1.0
#: Limit of the time in which a port shows its security.
_PORT_S = 1.0
#: Reasons for which the next address is of no use: each attempt may count as a failed login of the user.
_FINAL = (Kind.LOGIN, Kind.UNSUPPORTED, Kind.UNENCODABLE)


class Address(NamedTuple):
    host: str
    port: int
    name: str = ""


class _Outcome(NamedTuple, Generic[ResponseT]):
    """The outcome of a request to one address. `is_sent`: the node may have taken it, with a response or without."""

    response: ResponseT | None
    fault: Fault | None
    is_sent: bool


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
        self._read_at = 0.0
        #: The address that responded last: one that is down costs the pause before each attempt to connect.
        self._last: Address | None = None
        self._login = login
        self._tls = tls
        self._peers = Peers(client_id, login, tls)
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

    def ask(self, request: Request[ResponseT], node_id: int | None = None, version: Version = None) -> ResponseT:
        """Sends a request, in the newest version that both sides have, to a node or to any. Returns the response.

        A change is never sent to a second node, since the first may have done it without a response. Raises NoResponse,
        LoginRejected, UnknownNode and NotSupported.
        """
        addresses = self._any() if node_id is None else [self._address(node_id)]
        faults: dict[Address, Fault] = {}
        if len(addresses) == 1 or only_reads(request):
            response = self._read(addresses, request, version, faults)
        else:
            response = self._change(addresses, request, version, faults)
        if response is not None:
            return response
        self._read_at = 0.0  # the next request looks its node up
        raise self._error(addresses, faults)

    def _read(
        self, addresses: Sequence[Address], request: Request[ResponseT], version: Version, faults: dict[Address, Fault]
    ) -> ResponseT | None:
        """The response of the first address that has one. One that hangs must not hold up those that any broker answers.
        Where all are slow, each gets its time.
        """
        is_short = len(addresses) > 1 and self._timeout_s > ANY_S
        late = []
        for address in addresses:
            began = time.monotonic()
            response = self._tried(address, request, version, ANY_S if is_short else self._timeout_s, faults).response
            if response is not None:
                return response
            if address in faults and faults[address].kind in _FINAL:
                return None
            if is_short and time.monotonic() - began >= ANY_S:
                late.append(address)
        for address in late:
            response = self._tried(address, request, version, self._timeout_s, faults).response
            if response is not None:
                return response
        return None

    def _change(
        self, addresses: Sequence[Address], request: Request[ResponseT], version: Version, faults: dict[Address, Fault]
    ) -> ResponseT | None:
        """The response of the first address that takes the request. An address that has not just responded answers a query
        first: one that hangs would hold the change up, and the others could not get it any more. Those without an answer
        come last.
        """
        late = []
        for address in addresses:
            if address != self._last:
                query = MetadataRequest(topics=[])
                queried = self._tried(address, query, None, min(ANY_S, self._timeout_s), faults)
                if queried.fault is not None and queried.fault.kind in _FINAL:
                    return None
                if queried.response is None:
                    late += [address] if queried.fault is None else []
                    continue
            outcome = self._tried(address, request, version, self._timeout_s, faults)
            if outcome.is_sent or (outcome.fault is not None and outcome.fault.kind in _FINAL):
                return outcome.response
        for address in late:
            outcome = self._tried(address, request, version, self._timeout_s, faults)
            if outcome.is_sent:
                return outcome.response
        return None

    def coordinator(self, key: str, kind: int = GROUP) -> int:
        """The node that coordinates a group or a transactional id. Raises CoordinatorError."""
        response = self.ask(FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key]))
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            raise CoordinatorError(found.error_code, found.error_message)
        return int(found.node_id)

    def controller(self) -> int:
        """The node that a broker names as the controller: in a cluster of KRaft a broker, which forwards requests to it.

        Raises UnknownNode where there is none at the moment.
        """
        found = int(self._read_nodes().controller_id)
        if found < 0:
            raise UnknownNode("the brokers name no controller at the moment")
        return found

    def ask_controller(self, request: Request[ResponseT], version: Version = None) -> ResponseT:
        """Sends a request to the node that a broker names as the controller, or to another one if that does not respond.

        In a cluster of KRaft the brokers name any of them, also one that has just died, until its session ends. They learn
        of no request that was sent before: the node answers a query first.
        """
        named = self.controller()
        nodes = [named, *(one for one in self._nodes if one != named)]
        return self.ask(request, next((one for one in nodes if self._responds(one)), named), version)

    def _responds(self, node_id: int) -> bool:
        """Whether a node answers a query, or has just answered one."""
        address = self._address(node_id)
        if self._last is not None and self._last[:2] == address[:2]:
            return True
        outcome = self._outcome(address, MetadataRequest(topics=[]), None, min(ANY_S, self._timeout_s))
        if outcome.response is not None:
            self._last = address
        return outcome.response is not None

    def _tried(
        self,
        address: Address,
        request: Request[ResponseT],
        version: Version,
        timeout_s: float,
        faults: dict[Address, Fault],
    ) -> _Outcome[ResponseT]:
        """The outcome of a request to an address. `faults` gets the reason that the address, or its port, gives."""
        outcome = self._outcome(address, request, version, timeout_s)
        fault = outcome.fault
        if outcome.response is not None:
            self._last = address
        elif fault is not None:
            fault = self._fault_of_port(address) or fault if fault.kind is Kind.ENDED else fault
            faults[address] = fault
        return outcome._replace(fault=fault)

    def _fault_of_port(self, address: Address) -> Fault | None:
        """Why the node ends connections of this client; None where its port shows no reason."""
        arguments, login = self._tls(address.name, address.host), self._login(address.name)
        timeout_s = min(_PORT_S, self._timeout_s)
        try:
            return fault_of_port(
                (address.host, address.port), arguments.get("ssl"), timeout_s, has_login=login is not None
            )
        except OSError:
            return None

    def _error(self, addresses: Sequence[Address], faults: dict[Address, Fault]) -> Exception:
        """The error of a request that got no response; the words are those of the addresses that gave a reason."""
        for address, fault in faults.items():
            if fault.kind is Kind.UNSUPPORTED:
                return NotSupported(fault.words)
            if fault.kind is Kind.UNENCODABLE:
                return InvalidOptions(fault.words)
            if fault.kind in (Kind.LOGIN, Kind.TLS, Kind.SECURITY):
                has_tls = bool(self._tls(address.name, address.host))
                has_login = self._login(address.name) is not None
                where = f"{address.host}:{address.port}"
                return LoginRejected(explained(where, fault, has_tls=has_tls, has_login=has_login))
        refused = {one: fault for one, fault in faults.items() if fault.kind in (Kind.REFUSED, Kind.FOREIGN)}
        words = [
            f"{one.host}:{one.port} ({refused[one].words})" if one in refused else f"{one.host}:{one.port}"
            for one in addresses
        ]
        is_foreign = bool(faults) and all(fault.kind is Kind.FOREIGN for fault in faults.values())
        return (NotKafka if is_foreign else NoResponse)(f"no response from {', '.join(words)}")

    def _any(self) -> list[Address]:
        """The addresses that may serve any request: those of the command first, since the others may be out of reach."""
        known = [*self._bootstrap, *(one for one in self._nodes.values() if one not in self._bootstrap)]
        return sorted(known, key=lambda one: one != self._last)

    def _address(self, node_id: int) -> Address:
        """The node's address in the metadata, which is as old as FRESH_S at most."""
        if node_id not in self._nodes or time.monotonic() - self._read_at > FRESH_S:
            self._read_nodes()
        if node_id not in self._nodes:
            raise UnknownNode(f"broker {node_id} is not in the metadata")
        return self._nodes[node_id]

    def _read_nodes(self) -> MetadataResponse:
        response = self.ask(MetadataRequest(topics=[]))
        self._nodes = {one.node_id: Address(one.host, one.port) for one in response.brokers}
        self._read_at = time.monotonic()
        return response

    def _outcome(
        self, address: Address, request: Request[ResponseT], version: Version, timeout_s: float
    ) -> _Outcome[ResponseT]:
        reasons: list[Fault] = []
        sent = threading.Event()
        found: concurrent.futures.Future[ResponseT | None] = concurrent.futures.Future()

        def send() -> None:
            self._peers.send(
                address,
                request,
                found.set_result,
                timeout_ms=max(1, int(timeout_s * 1000)),
                version=version,
                explain=reasons.append,
                on_sent=sent.set,
            )

        self._loop.call_soon_threadsafe(send)
        return _Outcome(found.result(), reasons[0] if reasons else None, sent.is_set())


async def _settled() -> None:
    """Lets the loop take what the end of the connections has left it."""
    for _ in range(3):
        await asyncio.sleep(0)
