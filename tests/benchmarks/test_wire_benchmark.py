"""Requests and responses that benchmarks/wire.py pairs by correlation id in captured segments."""

from __future__ import annotations

import struct

from benchmarks.wire import Wire

BROKER, CLIENT = 9092, 40_000
PRODUCE, END_TXN = 0, 26


class Loopback:
    """Both directions of one connection, as Ethernet frames."""

    def __init__(self) -> None:
        self.wire = Wire(BROKER)
        self.sequences = {True: 0xFFFFFFF0, False: 7}

    def send(self, payload: bytes, at_ms: float, *, to_broker: bool, lost: bool = False) -> None:
        ports = (CLIENT, BROKER) if to_broker else (BROKER, CLIENT)
        sequence = self.sequences[to_broker]
        self.sequences[to_broker] = (sequence + len(payload)) & 0xFFFFFFFF
        tcp = struct.pack(">HHIIBBHHH", *ports, sequence, 0, 5 << 4, 0, 0, 0, 0)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, bytes(4), bytes(4))
        padding = bytes(6)  # not part of the payload
        if not lost:
            self.wire.packet(bytes(12) + b"\x08\x00" + ip + tcp + payload + padding, at_ms / 1000)

    def found(self) -> list[tuple[str, float]]:
        return [(one.api, round(one.took_ms, 3)) for one in self.wire.exchanges]


def request(key: int, version: int, correlation: int, body: bytes = b"") -> bytes:
    return struct.pack(">ihhi", 8 + len(body), key, version, correlation) + body


def respond(correlation: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


def test_a_request_takes_until_the_first_byte_of_its_response():
    loopback = Loopback()
    loopback.send(request(END_TXN, 1, 5, b"x" * 30), 10, to_broker=True)
    loopback.send(respond(5, b"y" * 6)[:9], 10.5, to_broker=False)
    loopback.send(respond(5, b"y" * 6)[9:], 30, to_broker=False)
    loopback.send(request(END_TXN, 1, 6), 40, to_broker=True)
    loopback.send(respond(6), 41, to_broker=False)
    assert loopback.found() == [("EndTxn v1", 0.5), ("EndTxn v1", 1.0)]


def test_requests_of_one_segment_are_separated_and_unanswered_ones_skipped():
    loopback = Loopback()
    both = request(PRODUCE, 9, 1, b"a" * 100) + request(END_TXN, 5, 2)
    loopback.send(both, 1, to_broker=True)
    loopback.send(respond(2), 3, to_broker=False)
    assert loopback.found() == [("EndTxn v5", 2.0)]


def test_behind_a_segment_that_was_missed_it_goes_on_with_the_next_one():
    loopback = Loopback()
    loopback.send(request(PRODUCE, 9, 1, b"a" * 100)[:60], 1, to_broker=True)
    loopback.send(bytes(52), 1, to_broker=True, lost=True)
    loopback.send(request(END_TXN, 1, 2), 2, to_broker=True)
    loopback.send(respond(2), 4, to_broker=False)
    assert loopback.found() == [("EndTxn v1", 2.0)]


def test_other_ports_are_nobodys_business():
    loopback = Loopback()
    loopback.wire = Wire(BROKER + 1)
    loopback.send(request(END_TXN, 1, 2), 2, to_broker=True)
    loopback.send(respond(2), 4, to_broker=False)
    assert loopback.found() == []
