"""Measures the console of a large cluster: `python -m benchmarks.console`, for 10,000 topics and 200 brokers.

One node holds the topics. The other brokers are only registered with the controller, under an address of that node, so that
they are in the metadata. Prints the time and the size of pages, and the memory of the console before and after.

`python -m benchmarks.console --search` measures instead searches for one record among 200,000 by key, value and JSON, with
and without masks, from the first request to the last of its slices, beside `odradek consume` with the same filter: seconds
until the first match, all seconds, and seconds of CPU of the console's process, without those that it takes in the same time
for its polls, and of the command.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from confluent_kafka import Producer
from odradek.admin.connection import Connection
from odradek.admin.features import describe_features
from odradek.admin.nodes import describe_cluster
from odradek.admin.topic_batches import create_topics
from odradek.admin.topic_changes import NewTopic

from compat_tests.broker_process import free_port
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.odradek_process import OdradekProcess
from compat_tests.registered_brokers import register_brokers

PAGES = ("/", "/topics", "/topics?page=100", "/topics?q=0999", "/brokers", "/groups", "/topics/topic-00007", "/quorum")
ROUNDS = 7
_MANY, _MANY_RECORDS = "many", 200_000
#: Seconds for which the CPU of the polls alone is measured.
_REST_S = 10
_DEADLINE_S = 900
_FIRST_BROKER = 1000
_SESSION_MS = 3_600_000


def started(directory: Path) -> tuple[OdradekProcess, str]:
    port, controller = free_port(), free_port()
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "broker.session.timeout.ms": str(_SESSION_MS),
        "auto.leader.rebalance.enable": "false",
    }
    node = OdradekProcess(directory, properties, start_deadline_s=120)
    node.start()
    return node, f"127.0.0.1:{controller}"


def measured(console: ConsoleProcess, topics: int, brokers: int) -> None:
    visitor = Visitor(console.address)
    deadline = time.monotonic() + _DEADLINE_S
    while f"{brokers + 1} running" not in (page := visitor.get("/")):
        assert time.monotonic() < deadline, page
        time.sleep(0.5)
    print(f"{'page':30} {'median ms':>10} {'worst ms':>10} {'bytes':>8}")
    for path in PAGES:
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            text = visitor.get(path)
            times.append((time.perf_counter() - began) * 1000)
            assert visitor.status == 200, text
        print(f"{path:30} {statistics.median(times):10.0f} {max(times):10.0f} {len(text):8}")
    print(f"memory with {topics} topics, {brokers + 1} brokers: {console.resident_bytes() / 1e6:.0f} MB")


def cpu_s(console: ConsoleProcess) -> float:
    fields = Path(f"/proc/{console.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Search(NamedTuple):
    """A search in the browser, and the same by command. `found`: a text of its only match."""

    name: str
    query: str
    words: tuple[str, ...]
    found: str
    masks: tuple[str, ...] = ()


def searches() -> list[Search]:
    made = []
    for number in (1_000, 123_456, 199_999):
        key = f"key-{number}"
        made.append(Search(f"key {number}", f"key=%5E{key}%24", ("--key", f"^{key}$"), key))
    number = 123_456
    key, value, where = f"key-{number}", f'"n": {number}}}', f"@.n == {number}"
    text = f"@.name == 'name-{number}'"
    masks = ("--mask", "*password*")
    made += [
        Search("value", f"value={quote(value)}", ("--value", value), key),
        Search("JSON", f"where={quote(where)}", ("--where", where), key),
        Search("JSON, nested", f"where={quote(f'@.of.id == {number}')}", ("--where", f"@.of.id == {number}"), key),
        Search("JSON, text", f"where={quote(text)}", ("--where", text), key),
        Search("masked, key", f"key=%5E{key}%24", ("--key", f"^{key}$"), key, masks),
        Search("masked, value", f"value={quote(value)}", ("--value", value), key, masks),
        Search("masked, JSON", f"where={quote(where)}", ("--where", where), key, masks),
    ]
    return made


def searched(visitor: Visitor, search: Search) -> tuple[int, float, float]:
    """Matches, seconds until the first one, and all seconds."""
    address, found, first = f"/topics/{_MANY}/messages?{search.query}", 0, 0.0
    began = time.perf_counter()
    while address:
        page = visitor.get(address)
        found += len(re.findall(f">{search.found}<", page))
        first = first or (time.perf_counter() - began if found else 0.0)
        more = re.search(r'class="button continue" href="([^"]+)"', page)
        address = more[1].replace("&amp;", "&") if more else ""
    return found, first, time.perf_counter() - began


def measure_search(node: OdradekProcess, folder: Path) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 50})
    with Connection({"bootstrap.servers": node.bootstrap}).admin() as admin:
        create_topics(admin, [_MANY], NewTopic(3, 1), if_not_exists=True, dry_run=False)
    for number in range(_MANY_RECORDS):
        value = b'{"name": "name-%d", "of": {"id": %d, "password": "p%d"}, "n": %d}' % (number, number, number, number)
        producer.produce(_MANY, value, b"key-%d" % number, partition=number % 3)
        if number % 10_000 == 0:
            producer.poll(0.1)
    assert producer.flush(_DEADLINE_S) == 0
    print(f"{'search':14} {'first s':>8} {'all s':>8} {'CPU s':>8} {'command CPU s':>14} {'ratio':>6}")
    for masks, some in itertools.groupby(searches(), key=lambda one: one.masks):
        console = ConsoleProcess(node.bootstrap, folder, *masks)
        try:
            _measure(node.bootstrap, console, list(some))
        finally:
            console.stop()


def _measure(bootstrap: str, console: ConsoleProcess, some: list[Search]) -> None:
    visitor = Visitor(console.address)
    visitor.await_text(f"/topics/{_MANY}/messages", "shown of")
    before, began = cpu_s(console), time.perf_counter()
    time.sleep(_REST_S)
    idle = (cpu_s(console) - before) / (time.perf_counter() - began)
    for search in some:
        before = cpu_s(console)
        found, first, took = searched(visitor, search)
        spent = cpu_s(console) - before - idle * took
        assert found == 1, (search, found)
        command = commanded(bootstrap, search.words)
        print(
            f"{search.name:14} {first:8.2f} {took:8.2f} {spent:8.2f} {command:14.2f} {spent / command:6.2f}", flush=True
        )


def commanded(bootstrap: str, filters: tuple[str, ...]) -> float:
    """Seconds of CPU of the command line."""
    words = ("consume", _MANY, "-o", "beginning", *filters, "-b", bootstrap)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "odradek", *words], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.count(b"\n") == 1, done
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=199, help="besides the one that runs")
    parser.add_argument("--search", action="store_true", help="a search for a key among 200,000 records")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        node, controller = started(Path(folder) / "node")
        try:
            if options.search:
                measure_search(node, Path(folder))
                return
            connection = Connection({"bootstrap.servers": node.bootstrap}, 300)
            with connection.admin() as admin:
                names = [f"topic-{number:05}" for number in range(options.topics)]
                create_topics(admin, names, NewTopic(1, 1), if_not_exists=True, dry_run=False)
                cluster_id = describe_cluster(admin).cluster_id
                features = {
                    name: (one.supported.lowest, one.supported.highest)
                    for name, one in describe_features(admin).items()
                    if one.supported
                }
            numbers = range(_FIRST_BROKER, _FIRST_BROKER + options.brokers)
            register_brokers(controller, cluster_id, numbers, node.port, features)
            console = ConsoleProcess(node.bootstrap, Path(folder))
            try:
                measured(console, options.topics, options.brokers)
            finally:
                console.stop()
        finally:
            node.kill()


if __name__ == "__main__":
    main()
