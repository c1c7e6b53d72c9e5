"""A network of our own: a bridge, and for each node a namespace with a link to it. Needs root and iproute2 on Linux.

Addresses are of 198.18.0.0/15, which is set apart for tests of networks (RFC 2544), and stay inside. A link is cut in one
direction by a neighbour entry that leads nowhere: what is sent is lost without a word, as on a broken network; a slow
link is a token bucket with a short queue, which delays and, when full, drops.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from types import TracebackType

#: Belongs to nobody on the bridge.
_NOWHERE = "02:00:00:00:00:fe"
_PREFIX = 24
_nets = itertools.count(os.getpid())


class NetworkRefused(RuntimeError):
    """This machine does not let us make network namespaces."""


def why_not() -> str:
    """Why no network can be made here; empty when it can."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "iproute2 is not installed"
    if os.geteuid() != 0:
        return "network namespaces need root"
    return ""


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise NetworkRefused(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Network:
    """Nodes are numbered from 1; clients live outside, where the bridge has an address."""

    def __init__(self, nodes: int) -> None:
        number = next(_nets)
        self.nodes = list(range(1, nodes + 1))
        self.tag = f"odr{number % 100_000}"
        self.net = f"198.{18 + number // 256 % 2}.{number % 256}"
        self._cut: set[tuple[int, int]] = set()
        self._slow: set[int] = set()

    def address(self, node: int) -> str:
        return f"{self.net}.{node}"

    def namespace(self, node: int) -> str:
        return f"{self.tag}n{node}"

    def within(self, node: int) -> list[str]:
        """The beginning of a command that is to run there; the process keeps its pid."""
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

    # ---- what may happen to it

    def cut(self, source: int, target: int) -> None:
        """What `source` sends to `target` is lost; the other direction stays as it is."""
        ip("-n", self.namespace(source), "neighbour", "replace", *self._nowhere(target))
        self._cut.add((source, target))

    def mend(self) -> None:
        """Every link is whole and fast again."""
        for source, target in self._cut:
            ip("-n", self.namespace(source), "neighbour", "delete", *self._nowhere(target))
        self._cut.clear()
        for node in self._slow:
            subprocess.run(["tc", "-n", self.namespace(node), "qdisc", "del", "dev", "eth0", "root"], check=True)
        self._slow.clear()

    def _nowhere(self, target: int) -> tuple[str, ...]:
        return (self.address(target), "lladdr", _NOWHERE, "nud", "permanent", "dev", "eth0")

    def slow(self, node: int, rate: str = "4mbit", wait: str = "60ms") -> None:
        """What the node sends goes at this rate, waits for at most this long, and is dropped beyond."""
        bucket = ["root", "tbf", "rate", rate, "burst", "16kb", "latency", wait]
        subprocess.run(["tc", "-n", self.namespace(node), "qdisc", "replace", "dev", "eth0", *bucket], check=True)
        self._slow.add(node)
