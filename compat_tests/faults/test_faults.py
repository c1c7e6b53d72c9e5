"""A small budget of rounds; the large one is `python -m compat_tests.faults --rounds 200`.

Each is a cluster of three processes under every kind of trouble that two faults of a seed are.
"""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from compat_tests.faults.faults import FAULTS
from compat_tests.faults.network import Network, ip, why_not
from compat_tests.faults.rounds import Plan, play


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
    """Whether a datagram arrives: nothing that would try again."""
    address = network.address(target)
    listen = f"import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('{address}', 7)); s.settimeout(1)"
    receiver = subprocess.Popen(
        [*network.within(target), "python3", "-c", f"{listen}; print('up', flush=True); s.recv(9)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert receiver.stdout is not None and receiver.stdout.readline()
    send = f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('{address}', 7))"
    subprocess.run([*network.within(source), "python3", "-c", send], check=True)
    receiver.stdout.close()
    return receiver.wait() == 0


def test_a_link_is_cut_in_one_direction_and_mended() -> None:
    with Network(2) as network:
        assert reaches(network, 1, 2) and reaches(network, 2, 1)
        network.cut(1, 2)
        assert not reaches(network, 1, 2) and reaches(network, 2, 1)
        network.slow(2)
        network.mend()
        assert all(reaches(network, *pair) for pair in itertools.permutations((1, 2)))
        ip("-n", network.namespace(1), "link", "show", "eth0")


def test_every_fault_is_known_by_its_name() -> None:
    assert all(fault.name == name for name, fault in FAULTS.items())
