"""A broker stops work for a peer that has disconnected."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from odradek.protocol.varint import encode_varint

from compat_tests.odradek_process import OdradekProcess
from tests.hostile.attack_target import cpu_seconds
from tests.hostile.attacker import Attacker, framed
from tests.hostile.attacks_requests import OFFSET_FETCH

pytestmark = pytest.mark.usefixtures("processes")

SMALL, LARGE = 10_000, 100_000
#: A broker that uses less CPU time than this in this time is idle.
IDLE_S, IDLE_CPU_S = 0.5, 0.05
DEADLINE_S = 60


def offset_fetch(groups: int) -> bytes:
    return framed(OFFSET_FETCH, 8, encode_varint(groups + 1) + b"\x02g\x00\x00" * groups + b"\x00\x00")


def await_idle(pid: int) -> float:
    """Waits until a broker is idle. Returns its CPU seconds."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        before = cpu_seconds(pid)
        time.sleep(IDLE_S)
        if cpu_seconds(pid) - before < IDLE_CPU_S:
            return before
        assert time.monotonic() < deadline, "the broker works on"


def test_broker_stops_work_on_large_request_of_departed_peer(tmp_path: Path) -> None:
    with OdradekProcess(tmp_path) as broker:
        with Attacker(broker.bootstrap) as attacker:
            assert attacker.exchange(offset_fetch(SMALL))  # the first one loads codecs
            began = cpu_seconds(broker.pid)
            assert attacker.exchange(offset_fetch(SMALL))
            small = cpu_seconds(broker.pid) - began
        began = await_idle(broker.pid)
        with Attacker(broker.bootstrap) as attacker:
            assert attacker.send(offset_fetch(LARGE))
        abandoned = await_idle(broker.pid) - began
    assert abandoned < small * LARGE / SMALL / 2
