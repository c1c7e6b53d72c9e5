"""Compares stock clients over SSL and SASL_SSL on both brokers in one run: `python -m benchmarks.secured.clients`.

The programs are those of `benchmarks.against_kafka`: Apache's performance tools and librdkafka. Each row drives one broker
and then the other, in several rounds after a warm-up. The listener SSL requires certificates of clients; clients of
SASL_SSL log in with SCRAM-SHA-256. Consumers read a topic that was filled over the plain listener.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from .. import brokers, loads
from ..against_kafka import Figures, measure, result
from ..loads import Load
from ..reporting import report
from ..reporting.kinds import LATENCY_P50, LATENCY_P99, THROUGHPUT, Kind, Row
from ..rows import KIB, label
from .nodes import Certificates, Node, add_user, client_properties, secured

#: Less than without TLS: TLS itself is the same work for both brokers.
CPU_PER_GB = Kind("broker CPU", "s/GB", 0.8, higher=False)
CPU_PER_REQUEST = Kind("broker CPU", "us/request", 0.8, higher=False)
LISTENERS = ("SSL", "SASL_SSL")


class Client:
    """The stock clients of a node over one of its listeners. `run` functions of rows take a bootstrap address of the plain
    listener, which they ignore.
    """

    def __init__(self, node: Node, listener: str, certificates: Certificates, scale: float) -> None:
        self.listener = listener
        self._bootstrap = "{}:{}".format(*node.address(listener))
        self._java_file = certificates.directory / f"{listener}.properties"
        java = client_properties(certificates, listener, of_java=True)
        self._java_file.write_text("".join(f"{key}={value}\n" for key, value in java.items()))
        self._rdkafka = client_properties(certificates, listener, of_java=False)
        self._scale = scale

    def rows(self) -> Iterator[Row]:
        for size, records in ((KIB, 400_000), (100, 1_000_000)):
            name = f"{self.listener}: produce {label(size)} acks=1"
            kinds = (THROUGHPUT, CPU_PER_GB)
            yield Row(name, "Java", partial(self._java_produce, records, size, {}), kinds)
            yield Row(
                name, "librdkafka", partial(self._rdkafka_load, "produce", records, size, {"linger.ms": "5"}), kinds
            )
        name, records = f"{self.listener}: consume 1 KiB from the start", 400_000
        fill = partial(self._fill, records)
        yield Row(name, "Java", partial(self._java_consume, records), kinds, feeds=fill)
        yield Row(name, "librdkafka", partial(self._rdkafka_load, "consume", records, KIB, {}), kinds, feeds=fill)
        name, records = f"{self.listener}: produce 100 B unbatched", 60_000
        alone = {"batch.size": "0", "linger.ms": "0"}
        run = partial(self._java_produce, records, 100, alone)
        yield Row(name, "Java", run, (THROUGHPUT, CPU_PER_REQUEST, LATENCY_P50, LATENCY_P99))
        alone = {"batch.num.messages": "1", "linger.ms": "0"}
        run = partial(self._rdkafka_load, "produce", records, 100, alone)
        yield Row(name, "librdkafka", run, (THROUGHPUT, CPU_PER_REQUEST))

    def _fill(self, records: int, plain: str, topic: str) -> Load:
        return loads.java_produce(plain, topic, self._scaled(records), KIB, acks="1")

    def _java_produce(self, records: int, size: int, properties: dict[str, str], plain: str, topic: str) -> Load:
        chosen = {"acks": "1", **properties}
        return loads.java_produce(
            self._bootstrap, topic, self._scaled(records), size, command_config=self._java_file, **chosen
        )

    def _java_consume(self, records: int, plain: str, topic: str) -> Load:
        return loads.java_consume(self._bootstrap, topic, self._scaled(records), KIB, command_config=self._java_file)

    def _rdkafka_load(
        self, what: str, records: int, size: int, properties: dict[str, str], plain: str, topic: str
    ) -> Load:
        chosen = self._rdkafka | ({"acks": "1"} if what == "produce" else {}) | properties
        return loads.rdkafka(self._bootstrap, topic, what, self._scaled(records), size, **chosen)

    def _scaled(self, records: int) -> int:
        return int(records * self._scale)


def main() -> None:
    options = arguments()
    figures: Figures = defaultdict(lambda: defaultdict(list))
    try:
        with tempfile.TemporaryDirectory(prefix="secured-clients-") as folder, ExitStack() as running:
            certificates = Certificates(Path(folder) / "certificates")
            nodes: dict[str, Node] = {}
            for name in (brokers.APACHE_NAME, brokers.ODRADEK_NAME):
                is_apache = name == brokers.APACHE_NAME
                node = secured(Path(folder) / name.split()[0], certificates, is_apache=is_apache)
                running.callback(node.broker.kill)
                add_user(node)
                nodes[name] = node
            measure_rows(nodes, certificates, options, figures)
    finally:
        # After an interruption: the rows that both brokers have.
        found = [result(key, by_broker) for key, by_broker in figures.items() if len(by_broker) == 2]
        report.show(found, Console())


def measure_rows(
    nodes: dict[str, Node], certificates: Certificates, options: argparse.Namespace, figures: Figures
) -> None:
    rows = {name: rows_of(node, certificates, options) for name, node in nodes.items()}
    with Progress() as progress:
        task = progress.add_task("loads", total=sum(map(len, rows.values())) * (options.rounds + 1))
        for number, pair in enumerate(zip(*rows.values(), strict=True)):
            for round_number in range(options.rounds + 1):
                for (name, node), row in zip(nodes.items(), pair, strict=True):
                    progress.update(task, description=f"{row.name} ({row.client})")
                    found = measure(row, node.broker, f"bench-{number}-{round_number}")
                    for kind, value in found.items() if round_number else ():
                        figures[row.name, row.client, kind][name].append(value)
                    progress.advance(task)


def rows_of(node: Node, certificates: Certificates, options: argparse.Namespace) -> list[Row]:
    clients = [Client(node, listener, certificates, options.scale) for listener in LISTENERS]
    return [row for client in clients for row in client.rows() if options.only in f"{row.name} {row.client}"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the records of each load (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds of each row (default: 3)")
    parser.add_argument("--only", default="", help="rows whose name or client contains this text")
    return parser.parse_args()


if __name__ == "__main__":
    main()
