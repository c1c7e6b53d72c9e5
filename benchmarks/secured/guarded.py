"""Measures unbatched produce with access rules and quotas against none: `python -m benchmarks.secured.guarded`.

Each record of 100 B is its own Produce request, with five in flight. The client has a rule that allows the topic, and quotas
of all kinds that it does not reach. Compares the CPU time for a request of two brokers in turn; the target is 10 % more at
most. `--apache` adds two brokers of Apache Kafka.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from odradek.metadata.acls import Operation, PatternType, Permission, ResourceType
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryDataRequest, OpData
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.quota_entities import EntityData

from compat_tests.wire import WireClient

from .loads import DataLoads
from .nodes import STANDARD_AUTHORIZER, Certificates, Node, secured
from .windows import Side, in_turn

MOST = 1.10
WARM_S = 5.0
#: Higher than a broker's capacity.
QUOTAS = {"producer_byte_rate": 1e10, "consumer_byte_rate": 1e10, "request_percentage": 1e6}
#: The guards of the brokers of each kind: none, rules, quotas, both.
GUARDS = {"neither": (), "rules": ("rules",), "quotas": ("quotas",), "both": ("rules", "quotas")}


def guard(node: Node, guards: tuple[str, ...]) -> None:
    with WireClient(node.broker.bootstrap) as client:
        if "rules" in guards:
            rule = AclCreation(
                ResourceType.TOPIC, "*", PatternType.LITERAL, "User:ANONYMOUS", "*", Operation.ALL, Permission.ALLOW
            )
            assert client.call(CreateAclsRequest([rule]), 3).results[0].error_code == 0
        if "quotas" in guards:
            entity = [EntityData(entity_type="user", entity_name="ANONYMOUS")]
            changes = [OpData(key=key, value=value, remove=False) for key, value in QUOTAS.items()]
            response = client.call(AlterClientQuotasRequest([EntryDataRequest(entity=entity, ops=changes)], False), 1)
            assert response.entries[0].error_code == 0, response


def started(
    folder: Path, certificates: Certificates, *, is_apache: bool, chosen: list[str]
) -> Iterator[tuple[str, Node]]:
    for name in chosen:
        guards = GUARDS[name]
        more = {"allow_everyone_if_no_acl_found": "true", "authorizer_class_name": STANDARD_AUTHORIZER}
        directory = folder / f"{'apache' if is_apache else 'odradek'}-{name}"
        yield name, secured(directory, certificates, is_apache=is_apache, **(more if "rules" in guards else {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apache", action="store_true", help="Apache Kafka too")
    parser.add_argument("--guards", nargs="+", choices=GUARDS, default=["neither", "both"])
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.25)
    options = parser.parse_args()
    for is_apache in (False, True) if options.apache else (False,):
        with tempfile.TemporaryDirectory(prefix="guarded-") as folder, ExitStack() as running:
            certificates = Certificates(Path(folder) / "certificates")
            sides: dict[str, Side] = {}
            for name, node in started(Path(folder), certificates, is_apache=is_apache, chosen=options.guards):
                running.callback(node.broker.kill)
                guard(node, GUARDS[name])
                sides[name] = Side(node.pid, DataLoads(node, "PLAINTEXT", None).produce(100, 1))
                sides[name].work(WARM_S)
            figures = in_turn(sides, options.windows, options.seconds)
        first = figures[options.guards[0]]
        print("Apache Kafka" if is_apache else "Odradek", "CPU of a request in us, least and median", flush=True)
        for name, found in figures.items():
            least, median = found.least_us / first.least_us, found.median_us / first.median_us
            print(
                f"  {name:8} {found.least_us:8.2f} {found.median_us:8.2f}   ratio {least:.2f} {median:.2f}", flush=True
            )


if __name__ == "__main__":
    main()
