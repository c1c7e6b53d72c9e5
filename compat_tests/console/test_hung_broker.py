"""The first page of a console that starts while a broker hangs: its port accepts connections, and nothing answers."""

from __future__ import annotations

import time
from pathlib import Path

from compat_tests.console.filled_cluster import FilledCluster
from compat_tests.console.process import ConsoleProcess, Visitor

#: The poller names an address that has not answered for 2 s; the rest is for the page, on a busy machine.
LATE_S, PAGE_S = 2.0, 2.0
#: Other processes may disturb one start of a console, and not all of them.
_STARTS = 5
#: The console has the picture of the other brokers by then: the library tries the broker that hangs first.
READ_S = 30.0


def test_first_page_names_the_only_address_that_does_not_answer(
    console_three: str, console_directory: Path, tmp_path: Path
) -> None:
    cluster = FilledCluster(console_three, console_directory / "three")
    address, took_s = console_three.split(",")[0], list[float]()
    with cluster.stopped(1):
        while not (took_s and took_s[-1] < LATE_S + PAGE_S):
            assert len(took_s) < _STARTS, took_s
            took_s.append(first_page_that_names(address, tmp_path))


def first_page_that_names(address: str, directory: Path) -> float:
    """Returns the seconds from the start of a console to its first page that names the address."""
    console = ConsoleProcess(address, directory)
    began, visitor = time.monotonic(), Visitor(console.address)
    try:
        while f"no response for 2 s from {address}" not in (page := visitor.get("/")):
            assert time.monotonic() - began < READ_S, page
            assert visitor.status == 200
            time.sleep(0.05)
        took_s = time.monotonic() - began
        assert address in visitor.get("/topics")
    finally:
        console.stop()
    return took_s


def test_first_page_shows_the_cluster_without_the_broker_that_hangs(
    console_three: str, console_directory: Path, tmp_path: Path
) -> None:
    cluster = FilledCluster(console_three, console_directory / "three")
    with cluster.stopped(1):
        console = ConsoleProcess(console_three, tmp_path)
        began, visitor = time.monotonic(), Visitor(console.address)
        try:
            while not ("1 without a response" in (page := visitor.get("/")) or "1 fenced" in page):
                assert time.monotonic() - began < READ_S, page
                time.sleep(0.2)
        finally:
            console.stop()
