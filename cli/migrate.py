"""`odradek migrate plan|check`: the way of a cluster from Apache Kafka to Odradek, node by node, and back.

- `survey`: a running cluster as it is before a step, read through the Kafka protocol. Nothing is changed.
- `to_odradek`, `to_apache`, `of_file`: findings, obstacles and differences afterwards.
- `order`, `look`, `blockers`: the nodes that change one after the other, and the reasons to wait.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ..metadata.features import FEATURES, TIERED_TOPIC_KEY
from ..server.config.properties import read_properties
from ..server.controller.repairing import newer_leader_changes
from ..storage.files.directory_lock import lock_holder
from .client.admin import ask, config_values, described_topics
from .client.connection import Connection
from .client.errors import UNREACHABLE, CommandError, Misused
from .client.options import Output, client_command, new_app
from .cluster_processes import LOCK_FILE, end
from .output import Table

if TYPE_CHECKING:
    from .client.admin import AdminClient, QuorumPartition, Topic


# ---- the cluster

APACHE, ODRADEK = "Apache Kafka", "Odradek"
#: The highest stable metadata.version of each release of Apache Kafka.
RELEASES = {21: "3.9", 25: "4.0", 27: "4.1", 29: "4.2", 30: "4.3", 33: "4.4"}
#: The source of a key that is set nowhere.
_DEFAULT = "DEFAULT_CONFIG"
#: The loggers that a node of Odradek describes begin with this.
_OWN_LOGGERS = "odradek."
#: Topics in one DescribeConfigs request: a response has every key of each.
_TOPICS_PER_REQUEST = 200


@dataclass
class Node:
    """A broker, or a controller that is no broker: of that one only its place in the quorum is known."""

    id: int
    is_broker: bool
    is_voter: bool = False
    is_active: bool = False
    is_fenced: bool = False
    program: str | None = None
    #: Feature to its (lowest, highest) supported level.
    supported: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Keys that differ from their defaults, with their values; None for secrets and texts that are not shown.
    configs: dict[str, str | None] = field(default_factory=dict)

    @property
    def release(self) -> str:
        level = self.supported.get("metadata.version", (0, 0))[1]
        return RELEASES.get(level, "unknown") if level else "unknown"

    @property
    def roles(self) -> str:
        quorum = "active controller" if self.is_active else "controller"
        return ", ".join((*(["broker"] if self.is_broker else []), *([quorum] if self.is_voter else [])))


@dataclass
class Survey:
    cluster_id: str
    nodes: dict[int, Node]
    #: Finalized levels by feature.
    levels: dict[str, int]
    quorum: QuorumPartition
    topics: list[Topic]
    tiered: list[str]

    @property
    def is_dynamic(self) -> bool:
        return self.levels.get("kraft.version", 0) > 0

    @property
    def brokers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_broker]


def survey(admin: AdminClient) -> Survey:
    cluster = admin.describe_cluster()
    (partition,) = admin.describe_metadata_quorum()["topics"][0]["partitions"]
    nodes = {
        broker["broker_id"]: Node(broker["broker_id"], True, is_fenced=bool(broker.get("is_fenced")))
        for broker in cluster["brokers"]
    }
    for voter in partition["current_voters"]:
        node = nodes.setdefault(voter["replica_id"], Node(voter["replica_id"], False))
        node.is_voter, node.is_active = True, node.id == partition["leader_id"]
    for node in nodes.values():
        if node.is_broker and not node.is_fenced:
            _describe(admin, node)
    features = admin.describe_features()
    levels = {name: int(one["finalized"][1]) for name, one in features.items() if one.get("finalized")}
    topics = described_topics(admin, None)
    found = dict(sorted(nodes.items()))
    return Survey(str(cluster["cluster_id"]), found, levels, partition, topics, _tiered(admin, topics))


def _describe(admin: AdminClient, node: Node) -> None:
    from ..protocol.messages.api_versions import ApiVersionsRequest

    loggers = config_values(admin, "broker_logger", str(node.id))
    node.program = ODRADEK if any(name.startswith(_OWN_LOGGERS) for name in loggers) else APACHE
    # kafka-python's "modified" has no key of server.properties.
    found = config_values(admin, "broker", str(node.id), which="all")
    node.configs = {name: one["value"] for name, one in sorted(found.items()) if one["config_source"] != _DEFAULT}
    request = ApiVersionsRequest(client_software_name="odradek-cli", client_software_version="1")
    response = ask(admin, request, node.id)
    node.supported = {one.name: (one.min_version, one.max_version) for one in response.supported_features or ()}


def _tiered(admin: AdminClient, topics: list[Topic]) -> list[str]:
    """Returns the topics with segments in remote storage."""
    from kafka.admin import ConfigResource, ConfigResourceType

    names = [str(topic["name"]) for topic in topics]
    found: list[str] = []
    for first in range(0, len(names), _TOPICS_PER_REQUEST):
        asked = [
            ConfigResource(ConfigResourceType.TOPIC, name, {TIERED_TOPIC_KEY: None})
            for name in names[first : first + _TOPICS_PER_REQUEST]
        ]
        response = admin.describe_configs(asked, config_filter="all").get("topic", {})
        found += [
            name
            for name, one in response.items()
            if TIERED_TOPIC_KEY in one and one[TIERED_TOPIC_KEY]["value"] == "true"
        ]
    return sorted(found)


# ---- findings

#: A finding of the first kind must be removed before the first step; one of the second is a difference afterwards.
STOPS, DIFFERS, WORKS = "stops", "differs", "works"
#: The levels that Apache Kafka 4.3 supports: the release to which a cluster goes back when it has no broker of Apache left.
RELEASE_BACK = {
    "metadata.version": 30, "share.version": 1, "group.version": 1, "kraft.version": 1, "streams.version": 1,
    "transaction.version": 2, "eligible.leader.replicas.version": 1,
}  # fmt: skip
_AUTHORIZER = "authorizer.class.name"
#: Java classes that Odradek has too, under their names.
_KNOWN_CLASSES = ("org.apache.kafka.", "kafka.")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
_TIERED_SYSTEM = "remote.log.storage.system.enable"
_TIERED_STORE = "remote.log.storage.manager.class.name"
#: Stores that both programs have.
STORES = ("org.apache.kafka.server.log.remote.storage.LocalTieredStorage",)
_RECORD_HEAD = 17


class Finding(NamedTuple):
    verdict: str
    subject: str
    words: str
    advice: str = ""


def to_odradek(found: Survey) -> Iterator[Finding]:
    """Findings of a way from Apache Kafka to Odradek."""
    for name, level in sorted(found.levels.items()):
        yield _level(name, level, FEATURES[name].built if name in FEATURES else 0, ODRADEK)
    yield _quorum(found)
    yield from _of_tiered(found)
    for node in found.brokers:
        if node.program == APACHE:
            yield from _of_configs(f"broker {node.id}", node.configs)


def _of_tiered(found: Survey) -> Iterator[Finding]:
    """Tiered topics stop the way where a broker of Apache Kafka has a store that Odradek does not have."""
    stores = {str(node.configs.get(_TIERED_STORE)) for node in found.brokers if node.program == APACHE}
    foreign = sorted(stores.difference(STORES))
    for topic in found.tiered:
        if not foreign:
            yield Finding(WORKS, f"topic {topic}", "its segments in remote storage stay: Odradek has the same store")
            continue
        yield Finding(
            STOPS,
            f"topic {topic}",
            f"it has segments in remote storage (remote.storage.enable); Odradek does not load {', '.join(foreign)}",
            "name a store of Odradek, set remote.storage.enable=false with remote.log.delete.on.disable=true, or delete it",
        )


def to_apache(found: Survey) -> Iterator[Finding]:
    """Findings of a way back. Its release is that of the brokers of Apache Kafka; without any it is 4.3."""
    theirs = [node for node in found.brokers if node.program == APACHE and node.supported]
    for name, level in sorted(found.levels.items()):
        highest = min((node.supported.get(name, (0, 0))[1] for node in theirs), default=RELEASE_BACK.get(name, 0))
        release = theirs[0].release if theirs else "4.3"
        yield _level(name, level, highest, f"{APACHE} {release}")
    yield _quorum(found)
    own = sorted({key for node in found.brokers for key in node.configs if key.startswith("odradek.")})
    if own:
        yield Finding(DIFFERS, "keys", f"{APACHE} does not know {', '.join(own)}", "it ignores them")


def _level(name: str, level: int, highest: int, program: str) -> Finding:
    if level <= highest:
        return Finding(WORKS, name, f"level {level}; {program} supports levels up to {highest}")
    advice = "lower it (`kafka-features.sh downgrade`) where the controller allows that; no node can join before"
    return Finding(STOPS, name, f"level {level}; {program} supports levels up to {highest}", advice)


def _quorum(found: Survey) -> Finding:
    kind = "dynamic voters (kraft.version 1)" if found.is_dynamic else "static voters (controller.quorum.voters)"
    voters = ", ".join(str(node.id) for node in found.nodes.values() if node.is_voter)
    return Finding(WORKS, "quorum", f"{kind}: {voters}", "go in place; new ids need dynamic voters for controllers")


def _of_configs(subject: str, configs: Mapping[str, str | None]) -> Iterator[Finding]:
    from ..metadata.configs.resources import BROKER

    if configs.get(_TIERED_SYSTEM) == "true" and configs.get(_TIERED_STORE) not in STORES:
        words = f"{_TIERED_SYSTEM}=true: Odradek does not load {configs.get(_TIERED_STORE)}"
        yield Finding(STOPS, subject, words, f"set it to false, or {_TIERED_STORE} to a store of Odradek")
    classes = {name: value for name, value in configs.items() if _is_class(name) and value}
    for name, value in sorted(classes.items()):
        if not str(value).startswith(_KNOWN_CLASSES):
            advice = "write it as a Python class (docs/specialists/security-classes.md), or remove it"
            yield Finding(STOPS, subject, f"{name}={value} is a class in Java", advice)
    if (authorizer := configs.get(_AUTHORIZER)) and str(authorizer).startswith(_KNOWN_CLASSES):
        yield Finding(WORKS, subject, f"authorizer {authorizer}", "ACLs are in the metadata and stay")
    mechanisms = str(configs.get("sasl.enabled.mechanisms") or "")
    for name in filter(None, (one.strip() for one in mechanisms.split(","))):
        if name in _MECHANISMS:
            yield Finding(WORKS, subject, f"SASL mechanism {name}")
        else:
            yield Finding(STOPS, subject, f"SASL mechanism {name} is not supported", "move its clients to another one")
    if listeners := configs.get("listeners"):
        protocols = str(configs.get("listener.security.protocol.map") or "")
        yield Finding(WORKS, subject, f"listeners {listeners}" + (f" ({protocols})" if protocols else ""))
    inert: dict[str, list[str]] = {}
    for name in sorted(configs):
        key = BROKER.get(name)
        if key is not None and key.inert:
            inert.setdefault(key.inert, []).append(name)
    for reason, names in inert.items():
        yield Finding(DIFFERS, subject, f"without effect: {', '.join(names)}", reason)


def _is_class(name: str) -> bool:
    from ..metadata.configs.resources import BROKER

    key = BROKER.get(name)
    if name in (_AUTHORIZER, "metric.reporters"):
        return True
    return key is not None and key.type.name == "CLASS"


def of_file(file: Path, to: str) -> Iterator[Finding]:
    """Findings of a node of this machine: its properties, and the formats on its disks. Raises CommandError."""
    from ..server.config.properties import read_properties
    from ..server.controller.metadata_log import DIRECTORY_NAME
    from ..storage.files.identity import read_meta_properties

    properties = read_properties(file)
    if to == ODRADEK:
        yield from _of_configs(str(file), properties)
    directories = directories_of(file)
    for directory in directories:
        known = read_meta_properties(str(directory))
        if known is None:
            raise CommandError(f"{directory} of {file} is not a formatted log directory")
        old = _old_formats(directory)
        if old and to == ODRADEK:
            words = f"batches of the message formats 0 and 1, from before Kafka 0.11, in {', '.join(old[:5])}"
            advice = "Odradek does not start with them: delete or copy these topics with Apache Kafka first"
            yield Finding(STOPS, str(directory), words, advice)
        if newer_leader_changes(directory / DIRECTORY_NAME) and to == APACHE:
            advice = f"`odradek doctor --data-dir {directory}` has the remedy"
            yield Finding(STOPS, str(directory), "LeaderChange records of version 1 in the metadata log", advice)
        yield Finding(WORKS, str(directory), f"a log directory of node {known.node_id}, cluster {known.cluster_id}")


def directories_of(file: Path) -> list[Path]:
    from ..server.config.properties import read_properties

    properties = read_properties(file)
    named = properties.get("log.dirs") or properties.get("log.dir") or "/tmp/kafka-logs"
    return [Path(one.strip()) for one in named.split(",")]


def _old_formats(directory: Path) -> list[str]:
    """Returns the first segments of partitions that begin with a message format older than the one of Kafka 0.11."""
    found = []
    for partition in sorted(path for path in directory.iterdir() if path.is_dir()):
        for segment in sorted(partition.glob("*.log"))[:1]:
            with segment.open("rb") as file:
                head = file.read(_RECORD_HEAD)
            if len(head) == _RECORD_HEAD and head[16] < 2:
                found.append(partition.name)
    return found


# ---- steps


def order(found: Survey, to: str) -> list[Node]:
    """Returns the nodes that have to change, the active controller last: so the controller moves once."""
    waiting = [node for node in found.nodes.values() if node.program != to]
    return sorted(waiting, key=lambda node: (node.is_active, node.is_voter, node.id))


class Step(NamedTuple):
    """A moment of a step. `found` is None while the cluster does not respond; `waits_for` is empty when the next may go."""

    found: Survey | None
    waits_for: list[str]


def look(connection: Connection) -> Step:
    from kafka.errors import KafkaError

    try:
        with connection.admin() as admin:
            found = survey(admin)
    except (CommandError, KafkaError) as error:
        # A controller or coordinator moves while a node changes.
        return Step(None, [f"the cluster does not respond: {str(error) or type(error).__name__}"])
    return Step(found, blockers(found))


def blockers(found: Survey) -> list[str]:
    """Returns what keeps the next node from changing now. An empty list: it may go."""
    words = [f"broker {node.id} is fenced" for node in found.brokers if node.is_fenced]
    offline = under = 0
    for topic in found.topics:
        for one in topic["partitions"]:
            offline += one["leader_id"] < 0
            under += len(one["isr_nodes"]) < len(one["replica_nodes"])
    words += [f"{offline} partitions have no leader"] if offline else []
    words += [f"{under} partitions have replicas that are not in sync"] if under else []
    return words + _quorum_blockers(found.quorum)


#: A voter that fetched everything within this time has caught up; one fetch waits for half a second.
_CAUGHT_UP_MS = 3000


def _quorum_blockers(quorum: Mapping[str, object]) -> list[str]:
    voters: list[dict[str, int]] = quorum["current_voters"]  # type: ignore[assignment]
    if quorum["leader_id"] == -1 or not voters:
        return ["the quorum has no leader"]
    newest = max(one["last_caught_up_timestamp"] for one in voters)
    ends = [one["log_end_offset"] for one in voters if one["replica_id"] == quorum["leader_id"]]
    return [
        f"controller {one['replica_id']} has not caught up with the quorum"
        for one in voters
        if one["replica_id"] != quorum["leader_id"]
        and newest - one["last_caught_up_timestamp"] > _CAUGHT_UP_MS
        and one["log_end_offset"] < max(ends, default=0)
    ]


# ---- nodes of this machine

_READY_POLL_S = 0.5
_READY_WAIT_S = 600.0


def change_all(connection: Connection, files: Iterable[Path], program: str, apache_start: str | None) -> None:
    """Stops and starts each node that does not run `program`. Waits after each until the next one may go. Raises
    CommandError.
    """
    by_id = {_node_id(file): file for file in files}
    found = _await_ready(connection, None, program)
    while steps := [node for node in order(found, program) if node.id in by_id]:
        node, file = steps[0], by_id[steps[0].id]
        began = time.monotonic()
        _stop(file)
        log = _start(file, program, apache_start)
        found = _await_ready(connection, node.id, program)
        if node.program is None:
            del by_id[node.id]  # no broker: nothing tells its program
        typer.echo(f"node {node.id} runs {program} after {time.monotonic() - began:.1f} s (its log: {log})")


def _node_id(file: Path) -> int:
    properties = read_properties(file)
    return int(properties.get("node.id") or properties.get("broker.id") or -1)


def _stop(file: Path) -> None:
    """Stops the process that has the node's first directory in use, if there is one."""
    pid = lock_holder(directories_of(file)[0] / LOCK_FILE)
    if pid is not None and not end([pid]):
        raise CommandError(f"process {pid} of {file} has not ended after SIGTERM")


def _start(file: Path, program: str, apache_start: str | None) -> Path:
    """Starts a node in a session of its own. Returns the path of its log."""
    own = [sys.executable, "-m", __package__.partition(".")[0], "start"]
    command = own if program == ODRADEK else shlex.split(apache_start or "")
    log = file.with_suffix(".log").absolute()
    with log.open("ab") as out:
        subprocess.Popen(
            [*command, str(file)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    return log


def _await_ready(connection: Connection, node_id: int | None, program: str) -> Survey:
    """Waits until the node serves with its program, and nothing keeps the next one from changing."""
    deadline = time.monotonic() + _READY_WAIT_S
    while True:
        found, why = look(connection)
        if found is not None and node_id is not None:
            node = found.nodes.get(node_id)
            if node is None or node.program not in (program, None):
                why.append(f"node {node_id} does not serve yet")
        if found is not None and not why:
            return found
        if time.monotonic() > deadline:
            raise CommandError(f"{'; '.join(why)}: the next node must not change")
        time.sleep(_READY_POLL_S)


# ---- the commands

app = new_app("Plan and watch the way of a cluster from Apache Kafka to Odradek, node by node, and back.")

#: A node that recovers its logs and catches up may take long.
DEFAULT_WAIT_S = 600.0
_POLL_S = 0.5


class Target(StrEnum):
    odradek = "odradek"
    apache = "apache"

    @property
    def program(self) -> str:
        return ODRADEK if self is Target.odradek else APACHE


To = Annotated[Target, typer.Option("--to", help="the program that all nodes shall run")]
Config = Annotated[
    list[Path] | None,
    typer.Option(
        "--config", metavar="server.properties", help="also read a node of this machine and its disks; may be repeated"
    ),
]


@app.command("plan")
@client_command
def plan(
    connection: Connection,
    output: Output,
    to: To = Target.odradek,
    config: Config = None,
    run: Annotated[
        bool, typer.Option("--run", help="stop and start the nodes of --config, one after the other, as planned")
    ] = False,
    apache_start: Annotated[
        str | None,
        typer.Option(
            "--apache-start", metavar="COMMAND", help="with --run --to apache: starts a node; its file is appended"
        ),
    ] = None,
) -> None:
    """Print what will work, what will not, and in which order the nodes change. Exit status 1 when something stops it."""
    if run and not config:
        raise Misused("--run needs the server.properties of the nodes: --config FILE, once for each")
    if run and to is Target.apache and not apache_start:
        raise Misused("--run --to apache needs --apache-start, as in bin/kafka-server-start.sh")
    with connection.admin() as admin:
        found = survey(admin)
    findings = list(to_odradek(found) if to is Target.odradek else to_apache(found))
    for file in config or ():
        findings += of_file(file, to.program)
    _show_plan(output, found, findings, order(found, to.program), to.program)
    if any(one.verdict == STOPS for one in findings):
        raise typer.Exit(1)
    if run:
        change_all(connection, config or [], to.program, apache_start)


def _show_plan(output: Output, found: Survey, findings: list[Finding], steps: list[Node], program: str) -> None:
    findings = sorted(findings, key=lambda one: (one.verdict != STOPS, one.verdict == "works"))
    nodes = [(node.id, node.roles, node.program, node.release, _state(node)) for node in found.nodes.values()]
    actions = [(number, node.id, _action(node, program)) for number, node in enumerate(steps, 1)]
    data: dict[str, object] = {
        "cluster_id": found.cluster_id,
        "to": program,
        "nodes": [dict(zip(("node", "roles", "program", "release", "state"), one, strict=True)) for one in nodes],
        "findings": [one._asdict() for one in findings],
        "order": [node.id for node in steps],
    }
    main = Table(f"To {program}", ("VERDICT", "SUBJECT", "FINDING", "ADVICE"), findings)
    described = Table(f"Nodes of {found.cluster_id}", ("NODE", "ROLES", "PROGRAM", "RELEASE", "STATE"), nodes)
    todo = Table("Order", ("STEP", "NODE", "ACTION"), actions)
    output.show([data], main, described, todo)


def _state(node: Node) -> str:
    return "fenced" if node.is_fenced else "serving" if node.is_broker else "not a broker"


def _action(node: Node, program: str) -> str:
    if node.program is None:
        return f"if it does not run {program} yet: stop it, start {program} on the same directories"
    return f"stop it, start {program} on the same directories, then `odradek migrate check`"


@app.command("check")
@client_command
def check(
    connection: Connection,
    output: Output,
    to: To = Target.odradek,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="how long to wait for it; 0 looks once")
    ] = DEFAULT_WAIT_S,
) -> None:
    """Wait until all replicas are in sync and the quorum has caught up, and name the next node. Exit status 1 when they
    are not in time.
    """
    found, why = _settled(connection, wait)
    steps = order(found, to.program)
    next_id = steps[0].id if steps and not why else None
    changed = sum(node.program == to.program for node in found.brokers)
    data = {"ready": not why, "waits_for": why, "changed": changed, "brokers": len(found.brokers), "next": next_id}
    rows = [("ready", not why), (f"brokers with {to.program}", f"{changed} of {len(found.brokers)}")]
    rows += [("waits for", words) for words in why]
    rows += [("next node", next_id if next_id is not None else "none")] if not why else []
    output.show([data], Table("", ("PROPERTY", "VALUE"), rows))
    if why:
        raise typer.Exit(1)


def _settled(connection: Connection, wait_s: float) -> tuple[Survey, list[str]]:
    """Returns the cluster and what the next step still waits for; nothing when it may go. Raises CommandError when the
    cluster does not respond in time.
    """
    deadline = time.monotonic() + wait_s
    while True:
        step = look(connection)
        if not step.waits_for or time.monotonic() > deadline:
            if step.found is None:
                raise CommandError(step.waits_for[0], UNREACHABLE)
            return step.found, step.waits_for
        time.sleep(_POLL_S)
