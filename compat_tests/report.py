"""Writes docs/specialists/compatibility.md from the results of the tests: `python -m compat_tests.report`.

The served APIs come from server/endpoints, the versions that clients used from the watcher. Rows of tools that did not run
(see ecosystem/) stay as they are in the document: `make ecosystem` runs manually.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from odradek.protocol.apis import APIS, Api
from odradek.server.endpoints import endpoint_files

from . import allow_list, results
from .differential import known
from .ecosystem.install import installed_version
from .ecosystem.tools import TOOLS
from .java.fetch import ORACLE, SPECIFICATION

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "specialists" / "compatibility.md"

#: Folder -> the client's name, and the packages whose versions were tested.
CLIENTS = {
    "java": ("Apache Kafka's Java clients and tools", ()),
    "streams": ("Kafka Streams", ()),
    "librdkafka": ("librdkafka (confluent-kafka)", ("confluent-kafka",)),
    "kafka_python": ("kafka-python", ("kafka-python",)),
    "aiokafka": ("aiokafka", ("aiokafka",)),
    "franz_go": ("franz-go", ()),
    "spark": ("Apache Spark's Kafka connector", ("pyspark",)),
}
#: Descriptions of the files of compat_tests/cluster, with three nodes and more.
CLUSTERS = {
    "test_order_events.py": (
        "brokers and controllers are killed, added and moved under [`order-events`](../failover.md): kafka-python, "
        "aiokafka, librdkafka, Apache Kafka's Java client and a streaming query of Spark"
    ),
    "test_mixed_cluster.py": (
        f"one quorum of two nodes of ours and one of Apache Kafka {ORACLE}; "
        "a data directory goes from Apache Kafka to us and back"
    ),
    "test_kafka_tools.py": (
        "`kafka-cluster.sh`, `kafka-features.sh`, `kafka-metadata-quorum.sh`, `kafka-topics.sh`, "
        "`kafka-leader-election.sh`, `kafka-reassign-partitions.sh`"
    ),
    "test_kafka_tools_on_replicas.py": (
        "`kafka-replica-verification.sh` (deprecated since 3.9, there in 4.3.1), `kafka-dump-log.sh` and "
        "`kafka-metadata-shell.sh` on what the nodes hold"
    ),
}
_HEAD = f"""\
# Compatibility

- Odradek implements the protocol of Apache Kafka {SPECIFICATION}.
- Unmodified clients run against it, and the tests record their requests.
- The same tests pass against Apache Kafka {ORACLE} (`pytest compat_tests --target=apache`).
- The tests send the same right and wrong requests to Apache Kafka and to Odradek, and compare every field of the responses.
- Each row has the version that ran; its findings name the defects of the client.

Written by `python -m compat_tests.report` from the last run of the tests; do not edit.
"""


_TOOLS_TITLE = "## Tools around Kafka"
_TOOLS_HEAD = f"""
{_TOOLS_TITLE}

`make ecosystem` installs each of these into an environment of its own and runs its tests; a row is of the last run.
"""


def served() -> list[Api]:
    """Returns the APIs that Odradek offers to clients: those with a handler that brokers serve."""
    handled = endpoint_files()
    return [api for api in APIS.values() if "broker" in api.listeners and api.name.lower() in handled]


def offered(api: Api) -> str:
    """Returns the versions in the ApiVersions response."""
    # Older librdkafka concludes from a missing Produce v0 that the broker has no compression.
    low = 0 if api.name == "Produce" else api.versions.low
    high = api.latest_stable_version
    return str(low) if low == high else f"{low}-{high}"


def document(ran: list[results.Result]) -> str:
    old = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    parts = [
        _HEAD,
        "## Clients\n",
        *clients(ran),
        tools(ran, old),
        *clusters(ran),
        "\n## APIs\n",
        *apis(ran),
        *differences(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def clients(ran: list[results.Result]) -> list[str]:
    yield_of = defaultdict(Counter)
    for one in ran:
        yield_of[one.client][one.outcome] += 1
    lines = [
        "| client | version | tests passed | tests failed | its own suite | findings |",
        "|---|---|---|---|---|---|",
    ]
    for folder, (name, packages) in CLIENTS.items():
        if folder not in yield_of:
            continue
        outcomes = yield_of[folder]
        reported = f"| {name} | {versions_of(folder, packages)} | {outcomes['passed']} | {outcomes['failed']} "
        lines.append(f"{reported}| {own_suite(folder)} | {findings(folder)} |")
    return lines


def tools(ran: list[results.Result], old: str) -> str:
    """Returns the section of the tools around Kafka; the row of a tool that did not run is that of `old`."""
    outcomes = defaultdict(Counter)
    for one in ran:
        if one.client == "ecosystem":
            outcomes[results.file_of(one).split("/")[2]][one.outcome] += 1
    head = [
        "| tool | version | tests passed | tests failed | what the tests do | findings |",
        "|---|---|---|---|---|---|",
    ]
    kept = {line.split(" | ")[0]: line for line in old.splitlines() if "](../../compat_tests/ecosystem/" in line}
    rows = []
    for tool in TOOLS:
        found = outcomes.get(tool.folder)
        link = f"[findings](../../compat_tests/ecosystem/{tool.folder}/FINDINGS.md)"
        if found is not None and found["passed"] + found["failed"]:
            counts = f"{installed_version(tool)} | {found['passed']} | {found['failed']}"
            rows.append(f"| {tool.name} | {counts} | {tool.work} | {link} |")
        elif f"| {tool.name}" in kept:
            rows.append(kept[f"| {tool.name}"])
    return "\n".join((_TOOLS_HEAD, *head, *rows))


def write_tools() -> None:
    """Rewrites the section of the tools, and nothing else."""
    old = DOCUMENT.read_text(encoding="utf-8")
    section = tools(results.read(), old) + "\n\n"
    if _TOOLS_TITLE in old:
        before, _, rest = old.partition(_TOOLS_TITLE)
        after = rest[rest.index("\n## ") + 1 :]
    else:
        before, found, after = old.partition("## Clusters")
        after = found + after
    DOCUMENT.write_text(before.rstrip() + "\n" + section + after, encoding="utf-8")


def clusters(ran: list[results.Result]) -> list[str]:
    outcomes = defaultdict(Counter)
    for one in ran:
        if one.client == "cluster":
            outcomes[results.file_of(one).rpartition("/")[2]][one.outcome] += 1
    rows = [
        f"| {reported} | {outcomes[file]['passed']} | {outcomes[file]['failed']} |"
        for file, reported in CLUSTERS.items()
        if file in outcomes
    ]
    return ["\n## Clusters\n", "| what | tests passed | tests failed |", "|---|---|---|", *rows] if rows else []


def versions_of(folder: str, packages: Iterable[str]) -> str:
    if folder in ("java", "streams"):
        return ORACLE
    if folder == "franz_go":
        mod = (ROOT / "compat_tests" / folder / "go.mod").read_text()
        return next(line.split()[-1] for line in mod.splitlines() if "twmb/franz-go v" in line)
    try:
        return ", ".join(version(package) for package in packages)
    except PackageNotFoundError:
        return "?"


def own_suite(folder: str) -> str:
    """Returns the number of tests of the client's own suite that must pass."""
    file = ROOT / "compat_tests" / folder / "tests.allow"
    foreign = [name for name in allow_list.read(file) if not allow_list.is_own(name)] if file.exists() else []
    return f"{len(foreign)} pass" if foreign else ""


def findings(folder: str) -> str:
    file = ROOT / "compat_tests" / folder / "FINDINGS.md"
    if file.exists():
        return f"[findings](../../compat_tests/{folder}/FINDINGS.md)"
    return "[spark_examples](../../spark_examples)" if folder == "spark" else ""


def apis(ran: list[results.Result]) -> list[str]:
    """Returns a row for each API: the versions offered, and those that each client used in tests that passed."""
    used: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for one in ran:
        if one.outcome == "passed" and one.client in CLIENTS:
            for key, number in one.requests:
                used[key][one.client].add(number)
    shown = [folder for folder in CLIENTS if any(folder in by for by in used.values())]
    names = [CLIENTS[folder][0].split(" (")[0].split("'")[0] for folder in shown]
    compared = Counter(one.api for one in scenarios())  # type: ignore[attr-defined]
    lines = [
        f"| key | API | versions | {' | '.join(names)} | compared with Kafka |",
        "|---|---|---|" + "---|" * (len(names) + 1),
    ]
    for api in served():
        cells = " | ".join(", ".join(str(number) for number in sorted(used[api.key][folder])) for folder in shown)
        lines.append(f"| {api.key} | {api.name} | {offered(api)} | {cells} | {compared[api.name]} scenarios |")
    absent = [api.name for api in APIS.values() if "broker" in api.listeners and api not in served()]
    reported = [
        "\nA client's column holds the versions that it used. Scenarios run in every version offered.\n",
    ]
    if absent:
        reported.append(f"Not served yet, and not advertised: {', '.join(absent)}.")
    return [*lines, *reported]


def scenarios() -> Iterable[object]:
    from compat_tests.differential.harness.sides import ALL

    return ALL


def differences() -> list[str]:
    """Returns the known differences of responses, once for each reason."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for one in known.read():
        if not one.reason.endswith("not built yet"):
            place = f"{one.api}, {one.scenario}"
            if place not in reasons[one.reason]:
                reasons[one.reason].append(place)
    lines = [f"- {', '.join(places)}: {reason}." for reason, places in reasons.items()]
    return ["\n## Known differences from Apache Kafka\n", *lines]


def main() -> None:
    ran = results.read()
    assert ran, "nothing ran yet: run `make test` or `pytest compat_tests` first"
    DOCUMENT.write_text(document(ran), encoding="utf-8")
    print(f"wrote {DOCUMENT.relative_to(ROOT)} from {len(ran)} tests")


if __name__ == "__main__":
    main()
