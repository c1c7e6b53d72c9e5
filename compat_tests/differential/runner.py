"""Runs a scenario against one broker and returns its responses."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.protocol.apis import APIS, Api
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.schema import ArrayOf, Message

from ..wire import ConnectionClosed, WireClient
from .normalise import Flat, Names, flatten
from .scenario import BatchOf, Given, Joined, Scenario, Step, Subscribed

BY_NAME: dict[str, Api] = {api.name: api for api in APIS.values()}
#: The deadline of a response; the timeouts in scenarios are far below it.
RESPONSE_DEADLINE_S = 60
UNTIL_DEADLINE_S = 60
_POLL_S = 0.01
#: Errors after which the request is sent again, as every client does.
_NOT_YET = frozenset({14, 15})  # coordinator load in progress, coordinator not available


@dataclass(frozen=True)
class Reported:
    """The result of a step: a label for people and the flat response."""

    step: str
    response: Flat


def advertised(bootstrap: str) -> dict[str, tuple[int, int]]:
    """Returns the versions that a broker offers, by API name."""
    with WireClient(bootstrap) as client:
        response = client.call(ApiVersionsRequest(client_software_name="odradek", client_software_version="1"), 3)
    return {
        APIS[one.api_key].name: (one.min_version, one.max_version) for one in response.api_keys if one.api_key in APIS
    }


def await_coordinators(bootstrap: str) -> None:
    """Has the broker create __consumer_offsets, and waits until every partition of it has its coordinator."""
    with WireClient(bootstrap) as client:
        for number in range(32):  # enough groups for each of its few partitions
            group = OffsetFetchRequestGroup(group_id=f"probe-{number}", topics=[])
            _until(
                lambda: client.call(FindCoordinatorRequest(coordinator_keys=["probe"]), 4).coordinators[0].error_code
            )
            _until(lambda one=group: client.call(OffsetFetchRequest(groups=[one]), 8).groups[0].error_code)


def _until(error_code: Callable[[], int]) -> None:
    deadline = time.monotonic() + UNTIL_DEADLINE_S
    while error_code() != 0:
        assert time.monotonic() < deadline, "no coordinator"
        time.sleep(_POLL_S)


class Runner:
    """A broker's side of one run of a scenario."""

    def __init__(
        self, bootstrap: str, scenario: Scenario, version: int, *, helpers: dict[str, int], run: str, started_ms: int
    ) -> None:
        self.bootstrap = bootstrap
        self.scenario = scenario
        self.version = version
        #: The version of every API but the one under test.
        self.helpers = helpers
        self.run = run
        self.started_ms = started_ms
        self._names = Names()
        self._kept: dict[str, Any] = {}
        self._connections: dict[str, WireClient] = {}
        self._pending: dict[str, list[tuple[Message, int, int]]] = {}

    def execute(self) -> list[Reported]:
        try:
            return [reported for n, step in enumerate(self.scenario.steps) for reported in self._step(n, step)]
        finally:
            for client in self._connections.values():
                client.close()

    def _step(self, number: int, step: Step) -> list[Reported]:
        label = f"{number + 1} {step.kind} {step.api}".rstrip()
        try:
            response = self._carry_out(step)
        except ConnectionClosed:
            self._connections.pop(step.on).close()
            response = {"connection": "closed"}
        except TimeoutError:
            self._connections.pop(step.on).close()
            response = {"connection": f"no response within {RESPONSE_DEADLINE_S} s"}
        return [Reported(label, response)] if step.compared and response is not None else []

    def _carry_out(self, step: Step) -> Flat | None:
        client = self._connection(step.on)
        if step.kind == "bytes":
            client.send_bytes(step.frame)
            return {"frame": client.receive_frame().hex()}
        if step.kind == "receive":
            request, version, number = self._pending[step.on].pop(0)
            return self._take(step, client.receive(request, version, number), version)
        request, version = self._request(step)
        if step.kind == "send":
            number = client.send(request, version)
            self._pending.setdefault(step.on, []).append((request, version, number))
            return None
        return self._take(step, self._completed(client, step, request, version), version)

    def _completed(self, client: WireClient, step: Step, request: Message, version: int) -> Any:
        """Returns the first response for which `until` holds, or without it the first of an available coordinator.

        At the deadline it returns the last response.
        """
        deadline = time.monotonic() + UNTIL_DEADLINE_S
        while True:
            response = client.call(request, version)
            ready = step.until(response) if step.until else not _error_codes(response) & _NOT_YET
            if ready or time.monotonic() > deadline:
                return response
            time.sleep(_POLL_S)

    def _take(self, step: Step, response: Any, version: int) -> Flat:
        for name, path in step.keep.items():
            value = response
            for part in path.split("."):
                value = value[int(part)] if part.isdigit() else getattr(value, part)
            self._kept[name] = value
            self._names.keep(name, value)
        return flatten(response, version, self._names)

    def _connection(self, name: str) -> WireClient:
        if name not in self._connections:
            self._connections[name] = WireClient(self.bootstrap, client_id=name, timeout=RESPONSE_DEADLINE_S)
        return self._connections[name]

    def _request(self, step: Step) -> tuple[Message, int]:
        api = BY_NAME[step.api]
        version = step.version
        if version is None:
            version = self.version if step.api == self.scenario.api else self.helpers[step.api]
        return build(api.request, self._resolve(step.fields)), version

    def _resolve(self, value: Any) -> Any:
        if isinstance(value, str) and value[:1] == "$":
            return f"{self.run}-{value[1:]}"
        if isinstance(value, str) and value[:1] == "@":
            return self._kept[value[1:]]
        if isinstance(value, dict):
            return {key: self._resolve(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._resolve(one) for one in value]
        if isinstance(value, BatchOf | Joined | Subscribed | Given):
            return value.build(self.started_ms, self._resolve)
        return value


def build(cls: type[Message], fields: dict[str, Any]) -> Message:
    """Returns a message from plain values. A field that the message does not have is a mistake in the scenario."""
    types = {field.name: field.type for field in cls.SCHEMA.fields}
    assert fields.keys() <= types.keys(), f"{cls.__name__} has no {sorted(fields.keys() - types.keys())}"
    return cls(**{name: _built(types[name], value) for name, value in fields.items()})


def _built(wire_type: Any, value: Any) -> Any:
    if isinstance(value, list) and isinstance(wire_type, ArrayOf):
        return [_built(wire_type.element, one) for one in value]
    if isinstance(value, dict):
        return build(wire_type, value)
    return value


def _error_codes(value: Any) -> set[int]:
    """Returns all error codes in a response."""
    if isinstance(value, list):
        return {code for one in value for code in _error_codes(one)}
    if not isinstance(value, Message):
        return set()
    found = {code for name in value.SCHEMA.fields for code in _error_codes(getattr(value, name.name))}
    code = getattr(value, "error_code", None)
    return found | ({code} if isinstance(code, int) else set())
