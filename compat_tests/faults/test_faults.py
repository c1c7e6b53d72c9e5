"""A small budget of rounds; the large one is `python -m compat_tests.faults --rounds 200`.

Each round is a cluster of three processes under three kinds of faults; together they cover all kinds.
"""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compat_tests.faults.faults import FAULTS
from compat_tests.faults.network import Network, why_not
from compat_tests.faults.rounds import Plan, execute

PORT = 4242
DEADLINE_S = 60


@pytest.fixture(autouse=True)
def a_network() -> None:
    if rejected := why_not():
        pytest.skip(rejected)


ROUNDS = [("kill", "cut", "slow"), ("pause", "kill-all", "cut-one-way"), ("full-disk", "roll", "stop")]


@pytest.mark.parametrize(("seed", "names"), list(enumerate(ROUNDS)))
def test_nothing_acknowledged_is_lost_moved_or_doubled(seed: int, names: tuple[str, ...], tmp_path: Path) -> None:
    outcome = execute(seed, Plan(names=names, in_turn=True), tmp_path)
    assert not outcome.anomalies, f"{outcome}\n" + "\n".join(outcome.anomalies[:20])
    assert outcome.seen >= outcome.acknowledged > 0


def test_nothing_acknowledged_is_lost_on_a_secured_cluster(tmp_path: Path) -> None:
    """Runs one fault; `python -m compat_tests.faults --secured --rounds 20` runs all of them."""
    outcome = execute(3, Plan(names=("kill",), faults=1, secured=True), tmp_path)
    assert not outcome.anomalies, f"{outcome}\n" + "\n".join(outcome.anomalies[:20])
    assert outcome.seen >= outcome.acknowledged > 0


def send(network: Network, source: int, target: int, datagrams: int = 1) -> None:
    address = (network.address(target), PORT)
    program = (
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM);"
        f"[s.sendto(b'inside'.ljust(1000), {address}) for _ in range({datagrams})]"
    )
    subprocess.run([*network.within(source), sys.executable, "-c", program], check=True)


def reaches(network: Network, source: int, target: int) -> bool:
    """Returns whether a datagram from `source` arrives before a later one from outside, whose link is never cut."""
    address = network.address(target)
    listen = f"import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('{address}', {PORT}))"
    receiver = subprocess.Popen(
        [
            *network.within(target),
            sys.executable,
            "-c",
            f"{listen}; print('up', flush=True); print(s.recv(1000).decode())",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiver.stdout is not None and receiver.stdout.readline() == "up\n"
    send(network, source, target)
    with socket.socket(type=socket.SOCK_DGRAM) as outside:
        outside.sendto(b"outside", (address, PORT))
    first, _ = receiver.communicate(timeout=60)
    return first.strip() == "inside"


def test_a_link_is_cut_in_one_direction_and_mended() -> None:
    with Network(2) as network:
        assert reaches(network, 1, 2) and reaches(network, 2, 1)
        network.cut(1, 2)
        assert not reaches(network, 1, 2) and reaches(network, 2, 1)
        network.slow(2)
        deadline = time.monotonic() + DEADLINE_S
        while not network.dropped(2):
            assert time.monotonic() < deadline, "nothing is lost on a slow link"
            send(network, 2, 1, datagrams=20)
        network.mend()
        assert all(reaches(network, *pair) for pair in itertools.permutations((1, 2)))


def test_every_fault_is_known_by_its_name_and_comes() -> None:
    assert all(fault.name == name for name, fault in FAULTS.items())
    assert sorted(itertools.chain(*ROUNDS)) == sorted(FAULTS)
