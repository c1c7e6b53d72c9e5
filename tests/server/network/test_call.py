"""A call, and what follows it: every call is of one class, and observers of it compose."""

from __future__ import annotations

from typing import Any

from odradek.protocol.apis import APIS
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.schema import Message
from odradek.server.network.call import Call, Observer
from odradek.server.network.observers import Observers, Timing
from odradek.server.network.relay import Relay
from odradek.server.network.route import Route

HEARTBEAT = 12


class Connection:
    def __init__(self) -> None:
        self.responses: list[Call] = []
        self.held_by: list[Call] = []

    def answered(self, call: Call) -> None:
        self.responses.append(call)

    def hold(self, call: Call) -> None:
        self.held_by.append(call)


class Steps(Observer):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def parked(self, call: Call) -> None:
        self.seen.append("parked")

    def replying(self, call: Call, response: Message | None) -> bool:
        self.seen.append("replying" if call.pieces is None else "late")
        return True

    def finishing(self, call: Call, pieces: list[Any]) -> bool:
        self.seen.append("finishing")
        return True

    def replied(self, call: Call) -> None:
        self.seen.append(f"replied {call.size} bytes")


class RecordingRelay(Relay):
    def __init__(self, outer: Call) -> None:
        super().__init__(outer)
        self.responses: list[Message | None] = []

    def taken(self, call: Call, response: Message | None) -> None:
        self.responses.append(response)


def call_of(connection: Any, observer: Observer | None = None) -> Call:
    call = Call(connection, Route(APIS[HEARTBEAT], 4), 7, "c", None)
    call.observer = observer
    return call


def test_observers_follow_a_call_in_order() -> None:
    connection, steps, timing = Connection(), Steps(), Timing()
    call = call_of(connection, Observers(timing, steps))
    call.parked()
    call.reply(HeartbeatResponse())
    assert steps.seen == ["parked", "replying", "finishing", f"replied {call.size} bytes"]
    assert connection.responses == [call]
    assert call.route.times.count == 1


def test_relay_takes_the_response_and_leaves_the_connection_to_the_outer_call() -> None:
    connection = Connection()
    outer = call_of(connection)
    relay = RecordingRelay(outer)
    inner = call_of(connection, relay)
    inner.hold_connection()
    response = HeartbeatResponse()
    inner.reply(response)
    assert (relay.responses, connection.responses, connection.held_by) == ([response], [], [outer])
    failing = call_of(connection, RecordingRelay(outer))
    failing.fail()
    assert failing.has_failed and connection.responses == [outer], "the failure is that of the outer call"


def test_unobserved_call_has_the_bytes_of_an_observed_one() -> None:
    connection = Connection()
    plain, observed = call_of(connection), call_of(connection, Observers(Steps()))
    for call in (plain, observed):
        call.reply(HeartbeatResponse())
    assert plain.pieces == observed.pieces
