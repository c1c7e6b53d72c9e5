"""A private network: a bridge, and for each node a namespace with a link to it. Needs root and iproute2 on Linux.

Addresses are in 198.18.0.0/15, which RFC 2544 reserves for tests of networks, and stay inside. A neighbour entry with an
unused address cuts a link in one direction: packets are lost without an error, as on a broken network. A slow link delays
packets and loses some. Where the kernel has no netem it is a token bucket with a short queue, which delays large packets
and bursts, and drops what does not fit.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from types import TracebackType

#: A hardware address that no interface on the bridge has.
_NOWHERE = "02:00:00:00:00:fe"
_PREFIX = 24
#: A slow link: a delay of 40±20 ms and a loss of 2%; or 2 Mbit/s and the loss of packets that would wait over 60 ms.
_LOSSY = ("netem", "delay", "40ms", "20ms", "loss", "2%")
_NARROW = ("tbf", "rate", "2mbit", "burst", "4kb", "latency", "60ms")
_nets = itertools.count(os.getpid())


class NetworkRefused(RuntimeError):
    """Raised when this machine does not permit network namespaces."""


def why_not() -> str:
    """Returns why no network can be made here; empty when it can."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "iproute2 is not installed"
    if os.geteuid() != 0:
        return "network namespaces need root"
    return ""


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise NetworkRefused(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _free_net() -> tuple[int, str]:
    """Returns a number and the prefix of unused addresses. Other rounds may hold addresses, even after a kill."""
    taken = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, check=True).stdout
    for number in _nets:
        net = f"198.{18 + number // 256 % 2}.{number % 256}"
        if f" {net}." not in taken:
            return number, net
    raise AssertionError("numbers do not end")


class Network:
    """Nodes are numbered from 1; clients live outside, where the bridge has an address."""

    def __init__(self, nodes: int) -> None:
        number, self.net = _free_net()
        self.nodes = list(range(1, nodes + 1))
        self.tag = f"odr{number % 100_000}"
        self._cut: set[tuple[int, int]] = set()
        self._slow: set[int] = set()

    def address(self, node: int) -> str:
        return f"{self.net}.{node}"

    def namespace(self, node: int) -> str:
        return f"{self.tag}n{node}"

    def within(self, node: int) -> list[str]:
        """Returns the start of a command that runs in the node's namespace; the process keeps its pid."""
        return ["ip", "netns", "exec", self.namespace(node)]

    def __enter__(self) -> Network:
        try:
            ip("link", "add", self.tag, "type", "bridge")
            ip("address", "add", f"{self.net}.254/{_PREFIX}", "dev", self.tag)
            ip("link", "set", self.tag, "up")
            for node in self.nodes:
                self._add(node)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _add(self, node: int) -> None:
        name, outside = self.namespace(node), f"{self.tag}v{node}"
        ip("netns", "add", name)
        ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", outside, "master", self.tag, "up")
        ip("-n", name, "address", "add", f"{self.address(node)}/{_PREFIX}", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes:
            subprocess.run(["ip", "netns", "delete", self.namespace(node)], capture_output=True)
        subprocess.run(["ip", "link", "delete", self.tag], capture_output=True)

    # ---- faults

    def cut(self, source: int, target: int) -> None:
        """Drops what `source` sends to `target`; the other direction stays as it is."""
        ip("-n", self.namespace(source), "neighbour", "replace", *self._nowhere(target))
        self._cut.add((source, target))

    def mend(self) -> None:
        """Restores every link and its speed."""
        for source, target in self._cut:
            ip("-n", self.namespace(source), "neighbour", "delete", *self._nowhere(target))
        self._cut.clear()
        for node in self._slow:
            subprocess.run(["tc", "-n", self.namespace(node), "qdisc", "del", "dev", "eth0", "root"], check=True)
        self._slow.clear()

    def _nowhere(self, target: int) -> tuple[str, ...]:
        return (self.address(target), "lladdr", _NOWHERE, "nud", "permanent", "dev", "eth0")

    def slow(self, node: int) -> None:
        """Delays the packets of the node, and drops some."""
        put = ["tc", "-n", self.namespace(node), "qdisc", "replace", "dev", "eth0", "root"]
        if subprocess.run([*put, *_LOSSY], capture_output=True).returncode:
            subprocess.run([*put, *_NARROW], check=True)
        self._slow.add(node)

    def dropped(self, node: int) -> int:
        """Returns the number of packets of the node that were dropped since it was made slow."""
        show = ["tc", "-n", self.namespace(node), "-s", "qdisc", "show", "dev", "eth0"]
        reported = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        return sum(map(int, re.findall(r"dropped (\d+)", reported)))
