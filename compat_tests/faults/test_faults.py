"""A small budget of rounds; the large one is `python -m compat_tests.faults --rounds 200`.

Each is a cluster of three processes under every kind of trouble that two faults of a seed are.
"""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.faults.faults import FAULTS
from compat_tests.faults.network import Network, why_not
from compat_tests.faults.rounds import Plan, play

PORT = 4242


@pytest.fixture(autouse=True)
def a_network() -> None:
    if refused := why_not():
        pytest.skip(refused)


@pytest.mark.parametrize(("seed", "names"), [(1, ("kill", "cut")), (2, ("pause", "kill-all"))])
def test_nothing_acknowledged_is_lost_moved_or_doubled(seed: int, names: tuple[str, ...], tmp_path: Path) -> None:
    outcome = play(seed, Plan(faults=2, names=names), tmp_path)
    assert not outcome.anomalies, f"{outcome}\n" + "\n".join(outcome.anomalies[:20])
    assert outcome.seen >= outcome.acknowledged > 0


def reaches(network: Network, source: int, target: int) -> bool:
    """Whether a datagram of `source` arrives before one that is sent after it, from outside, where no link is cut."""
    address = network.address(target)
    listen = f"import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('{address}', {PORT}))"
    receiver = subprocess.Popen(
        [
            *network.within(target),
            sys.executable,
            "-c",
            f"{listen}; print('up', flush=True); print(s.recv(9).decode())",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiver.stdout is not None and receiver.stdout.readline() == "up\n"
    send = f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'inside', ('{address}', {PORT}))"
    subprocess.run([*network.within(source), sys.executable, "-c", send], check=True)
    with socket.socket(type=socket.SOCK_DGRAM) as outside:
        outside.sendto(b"outside", (address, PORT))
    first, _ = receiver.communicate(timeout=60)
    return first == "inside\n"


def test_a_link_is_cut_in_one_direction_and_mended() -> None:
    with Network(2) as network:
        assert reaches(network, 1, 2) and reaches(network, 2, 1)
        network.cut(1, 2)
        assert not reaches(network, 1, 2) and reaches(network, 2, 1)
        network.slow(2)
        network.mend()
        assert all(reaches(network, *pair) for pair in itertools.permutations((1, 2)))


def test_every_fault_is_known_by_its_name() -> None:
    assert all(fault.name == name for name, fault in FAULTS.items())
