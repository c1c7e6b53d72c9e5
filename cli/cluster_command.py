"""`odradek cluster start|status|stop`: several processes on one machine as one cluster, and a way to use its cores.

- `ClusterSecurity`: the security of such a cluster, `odradek cluster start --security scram`.
- `run_start`, `run_status`, `run_stop`, `run_restart`: the commands.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .client.commands import second_words
from .options import (
    FAILED,
    MISUSED,
    CommandParser,
    UsageError,
    add_override,
    complain,
    overrides_of,
    path,
    port,
    shown,
    warn,
)
from .stop_signals import ignore_stop_signals, stop_on_signals

if TYPE_CHECKING:
    from ..protocol.internal.cluster_metadata import UserScramCredentialRecord
    from ..protocol.messages.metadata import MetadataResponsePartition
    from ..server.access.provisioning import Security
    from .cluster_plan import Node, Plan
    from .cluster_processes import ClusterProcesses
    from .cluster_queries import Responses

# ---- security
#
# ```
# security.json                  the choice, and the users with their passwords; the next start finds it
# tls/authority.key              the authority that signs; each start issues the certificates anew
# tls/authority.pem
# tls/node-1.pem                 key and certificate of a node
# clients/authority.pem          the authority that clients trust
# clients/admin.properties       the settings of a client that is the user `admin`, for Kafka's tools and
#                                `--command-config`
# clients/admin.crt, .key, .pem  its certificate, where clients have one
# ```

FILE = "security.json"
NAMES = ("tls", "mtls", "scram", "plain")
USER = "admin"
_PASSWORD_BYTES = 15


class ClusterSecurity:
    """The choice of a cluster, and its files in `directory`."""

    def __init__(self, directory: Path, name: str, users: dict[str, str]) -> None:
        from ..server.access.provisioning import Security

        self._directory = directory
        self._name = name
        self.security: Security = Security.named(name, users)
        self.security.check()

    @property
    def client_properties(self) -> Path:
        return self._directory / "clients" / f"{self.security.first_user}.properties"

    def shared_properties(self) -> dict[str, str]:
        """Returns the properties that all nodes have."""
        return self.security.properties(several_nodes=True)

    def node_properties(self, node: Node) -> dict[str, str]:
        """Returns where a node finds its key, and the authority that it trusts."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._key_file(node)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._directory / "tls" / "authority.pem"),
        }

    def scram_records(self) -> list[UserScramCredentialRecord]:
        """Returns the users of a new cluster."""
        from .scram_option import scram_user

        mechanism = self.security.mechanism
        return [
            scram_user(f"{mechanism}=[name={name},password={password}]")
            for name, password in self.security.scram_users.items()
        ]

    def write(self, plan: Plan) -> None:
        """Writes all files; certificates are new each time, the authority is kept. Raises OSError, ValueError."""
        import json
        import socket

        from ..server.access.provisioning import NODE_NAME, Authority, ClientFiles, write_secret

        write_secret(
            self._directory / FILE, json.dumps({"security": self._name, "users": dict(self.security.users)}) + "\n"
        )
        keys = self._directory / "tls"
        keys.mkdir(mode=0o700, exist_ok=True)
        if (keys / "authority.key").exists():
            authority = Authority.read(keys)
        else:
            authority = Authority.new()
            authority.write(keys)
        hosts = tuple(dict.fromkeys(("localhost", "127.0.0.1", "::1", socket.gethostname())))
        for node in plan.nodes:
            identity = authority.issue(NODE_NAME, hosts)
            write_secret(self._key_file(node), identity.key_pem + identity.chain_pem)
        clients = ClientFiles(self._directory / "clients", self.security)
        clients.directory.mkdir(mode=0o700, exist_ok=True)
        clients.write(authority)
        clients.write_properties(",".join(plan.addresses))

    def _key_file(self, node: Node) -> Path:
        return self._directory / "tls" / f"node-{node.id}.pem"


def chosen(directory: Path, name: str | None, *, is_new: bool) -> ClusterSecurity | None:
    """Returns the security of a cluster: what was chosen when it was made. Raises UsageError, ValueError, OSError."""
    known = _read(directory)
    if name is not None and not is_new and (known is None or known[0] != name):
        was = f"--security {known[0]}" if known is not None else "no --security"
        raise UsageError(f"this cluster was created with {was}; for another --security, choose another --data-dir")
    if known is not None:
        return ClusterSecurity(directory, *known)
    if name is None:
        return None
    import secrets  # the parser of every command imports this module

    return ClusterSecurity(directory, name, {USER: secrets.token_urlsafe(_PASSWORD_BYTES)})


def _read(directory: Path) -> tuple[str, dict[str, str]] | None:
    import json

    path = directory / FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        name, users = data["security"], {str(user): str(password) for user, password in data["users"].items()}
        if name not in NAMES or not users:
            raise ValueError("it names no known security profile")
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not what `odradek cluster start` wrote: {error}") from None
    return name, users


# ---- commands

DEFAULT_DATA_DIR = "odradek-cluster"
DEFAULT_BROKERS = 3
#: Each is a process; a machine has room for some dozens.
MOST_BROKERS = 100
#: Another program may take a port between its choice and the start of its node; other ports are chosen then.
_MOST_STARTS = 4

EPILOG = """\
examples:
  odradek cluster start                              start three brokers on 127.0.0.1:9092 to 9094
  odradek cluster start --brokers 5 --port 0         on free ports; the first line names them
  odradek cluster start --security scram             with SASL over TLS for clients, and mutual TLS between nodes
  odradek cluster start --properties mine.properties   with your own certificates and users
  odradek cluster status
  odradek cluster restart                            restart one node after another, as for an upgrade
  odradek cluster restart --node 2                   restart node 2, or start it if it is down
  odradek cluster stop

The first three nodes are controllers too. Topics have three replicas and accept writes while two of them run.
Each node has its own folder with server.properties. `odradek start node-1/server.properties` starts a node that is down.
"""


def add_to(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = commands.add_parser(
        "cluster",
        help="start, show or stop a cluster on this machine",
        description="Manages a cluster of several brokers on this machine.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = command.add_subparsers(title="commands", dest="verb", metavar="COMMAND", required=True)
    start = verbs.add_parser("start", help="start all nodes, and stop them on SIGTERM or SIGINT")
    start.add_argument(
        "--brokers", type=_count, default=None, metavar="N", help="number of brokers (default: 3, or as before)"
    )
    start.add_argument(
        "--port", type=port, metavar="P", help="port of the first broker; 0: free ports (default: 9092, or as before)"
    )
    start.add_argument(
        "--security",
        choices=NAMES,
        help="create certificates and a user: clients connect with TLS, with client certificates (mtls), or log in (scram, "
        "plain); clients/admin.properties has the client properties",
    )
    start.add_argument(
        "--properties", type=path, metavar="FILE", help="properties of every node; --override takes precedence"
    )
    start.add_argument(
        "-S",
        "--add-scram",
        metavar="MECHANISM=[...]",
        action="append",
        default=[],
        help="a user of a new cluster, such as SCRAM-SHA-512=[name=alice,password=...]; may be repeated",
    )
    add_override(start, "a property of every node; may be repeated")
    start.set_defaults(run=run_start)
    verbs.add_parser("status", help="show nodes, leaders and replicas").set_defaults(run=run_status)
    verbs.add_parser("stop", help="stop all nodes").set_defaults(run=run_stop)
    again = verbs.add_parser("restart", help="restart nodes one after another, and start those that are down")
    again.add_argument(
        "--node", action="append", type=_count, metavar="N", help="only this node; may be repeated (default: all)"
    )
    again.set_defaults(run=run_restart)
    own = list(verbs.choices.values())
    for name, meaning in second_words("cluster").items():
        verbs.add_parser(name, help=meaning)
    for verb in own:
        verb.add_argument(
            "--data-dir",
            type=path,
            default=Path(DEFAULT_DATA_DIR),
            metavar="D",
            help=f"directory with the nodes' folders (default: ./{DEFAULT_DATA_DIR})",
        )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and 1 <= int(text) <= MOST_BROKERS):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a number of brokers from 1 to {MOST_BROKERS}")
    return int(text)


def run_start(options: argparse.Namespace) -> int:
    from ..storage.files.identity import InvalidMetaProperties
    from ..storage.files.open_files import LogDirectoryFailure, make_folder
    from .cluster_plan import CannotListen
    from .cluster_processes import ClusterFailed, watching

    try:
        directory = _directory(options)
        overrides = _overrides(options)
        make_folder(directory)
        with watching(directory):
            return _start(options, directory, overrides)
    except (UsageError, ValueError) as error:  # InvalidConfig is a ValueError
        return complain(error, MISUSED)
    except (ClusterFailed, CannotListen, LogDirectoryFailure, InvalidMetaProperties, OSError) as error:
        return complain(error, FAILED)


def _start(options: argparse.Namespace, directory: Path, overrides: dict[str, str]) -> int:
    """Starts the nodes and waits for them. Raises what `run_start` explains."""
    from .cluster_plan import ListenerNames, grown, read_plan, write_plan, write_properties
    from .cluster_processes import ClusterFailed, ClusterProcesses, node_pids

    plan = read_plan(directory)
    running = node_pids(plan, directory) if plan is not None else {}
    if running:
        nodes = ", ".join(f"{node_id} (process {pid})" for node_id, pid in running.items())
        raise ClusterFailed(
            f"the cluster in {directory} runs already: node {nodes}; stop it with `odradek cluster stop`"
        )
    known = len(plan.nodes) if plan is not None else DEFAULT_BROKERS
    first = options.port if options.port is not None else (9092 if plan is None else 0)
    security = chosen(directory, options.security, is_new=plan is None)
    users = _users(options.add_scram)
    if security is not None:
        overrides = security.shared_properties() | overrides
        users += security.scram_records()
    has_internal = bool(ListenerNames.of(overrides).internal)
    plan = grown(plan, options.brokers or known, first or None, has_internal=has_internal)
    is_stopped = _signals()
    try:
        for starts_left in reversed(range(_MOST_STARTS)):
            _check(plan, directory, overrides)
            write_plan(directory, plan)
            if security is not None:
                security.write(plan)
            write_properties(plan, directory, overrides, security)
            _format(plan, directory, users)
            try:
                return _serve(ClusterProcesses(plan, directory), security, is_stopped)
            except ClusterFailed:
                moved = grown(plan, len(plan.nodes), first or None, has_internal=has_internal)
                if moved == plan or not starts_left:
                    raise
                plan = moved  # another program took a port before its node listened
    finally:
        ignore_stop_signals()
    raise AssertionError("the last start returns or raises")


def _serve(cluster: ClusterProcesses, security: ClusterSecurity | None, is_stopped: Callable[[], bool]) -> int:
    """Starts the nodes, waits until they have ended or the command is stopped, and stops them. Raises ClusterFailed."""
    plan = cluster.plan
    try:
        cluster.begin()
        if cluster.await_serving(is_stopped):
            addresses = ",".join(plan.addresses)
            summary = f"data in {cluster.directory}"
            if security is not None:
                summary += f"; settings of clients in {security.client_properties}"
            print(f"odradek: {len(plan.nodes)} brokers serving on {addresses} ({summary})", flush=True)
            cluster.wait(is_stopped)
    finally:
        in_order = cluster.stop()
    return 0 if in_order else complain("not every node stopped in time", FAILED)


def _directory(options: argparse.Namespace) -> Path:
    """The cluster's directory. Raises UsageError for one that cannot stand in a list of log directories."""
    directory: Path = options.data_dir.resolve()
    if "," in str(directory) or not str(directory).isprintable():
        raise UsageError(f"--data-dir {shown(str(directory))}: choose a path without commas and control characters")
    return directory


def _overrides(options: argparse.Namespace) -> dict[str, str]:
    """Returns the properties that all nodes have, and warns of unknown keys. Raises UsageError for a key that the cluster
    sets itself.
    """
    from ..server.config.broker_config import read_properties, unknown_properties
    from .cluster_plan import OWN_KEYS

    overrides = overrides_of(options)
    file: dict[str, str] = {}
    if options.properties is not None:
        try:
            file = read_properties(options.properties)
        except OSError as error:
            raise UsageError(f"cannot read {options.properties}: {error.strerror or error}") from None
    for name, given in (("--override", overrides), (f"--properties {options.properties}:", file)):
        if own := sorted(OWN_KEYS & given.keys()):
            raise UsageError(f"{name} {', '.join(own)}: each node of a cluster has its own; leave it out")
    overrides = file | overrides
    for line in unknown_properties(overrides):
        warn(line)
    return overrides


def _check(plan: Plan, directory: Path, overrides: dict[str, str]) -> None:
    """Raises UsageError and InvalidConfig for overrides with which no node would start, before anything is written."""
    import logging

    from ..server.config.broker_config import BrokerConfig
    from .cluster_plan import properties

    logging.getLogger("odradek.config").setLevel(logging.ERROR)  # each node's log has its own warnings
    for node in plan.nodes:  # the last one has the highest port for metrics
        BrokerConfig(properties(plan, node, directory, overrides))


def _users(texts: list[str]) -> list[UserScramCredentialRecord]:
    """Raises UsageError."""
    if not texts:
        return []
    from .scram_option import scram_user

    return [scram_user(text) for text in texts]


def _format(plan: Plan, directory: Path, users: list[UserScramCredentialRecord]) -> None:
    """All nodes belong to one cluster from the beginning. `users`: of a new one."""
    from .cluster_plan import format_node

    for node in plan.nodes:
        format_node(plan, directory, node, users)


def _signals() -> Callable[[], bool]:
    """Returns a function that is True once SIGTERM or SIGINT has come."""
    reported: list[bool] = []  # no threading.Event: a signal within the handler of another would wait for its lock
    stop_on_signals(lambda: reported.append(True))
    return lambda: bool(reported)


def run_status(options: argparse.Namespace) -> int:
    from .cluster_plan import read_plan

    directory = options.data_dir.resolve()
    try:
        plan = read_plan(directory)
    except (ValueError, OSError) as error:
        return complain(error, FAILED)
    if plan is None:
        return complain(f"there is no cluster in {directory}; start one with `odradek cluster start`", FAILED)

    try:
        lines = _status(plan, directory)
    except (ValueError, OSError) as error:  # stores and properties of the nodes
        return complain(error, FAILED)
    print("\n".join(lines))
    return 0


def run_stop(options: argparse.Namespace) -> int:
    from .cluster_processes import ClusterFailed, end, node_pids, watcher_pid

    directory = options.data_dir.resolve()
    try:
        plan = _plan(directory)
        # Nodes that were started by hand are no children of the process that watches the others.
        nodes, watcher = node_pids(plan, directory), watcher_pid(directory)
        if not nodes and watcher is None:
            return complain(f"the cluster in {directory} does not run", FAILED)
        if nodes:
            named = ", ".join(f"{node_id} (process {pid})" for node_id, pid in nodes.items())
            print(f"odradek: stopping node {named}", flush=True)
        if not end({*nodes.values(), *(() if watcher is None else (watcher,))}):
            return complain("not every node stopped in time", FAILED)
        print("odradek: no node runs", flush=True)
    except (ClusterFailed, ValueError, OSError) as error:
        return complain(error, FAILED)
    return 0


def run_restart(options: argparse.Namespace) -> int:
    from .cluster_processes import ClusterFailed, restart

    directory = options.data_dir.resolve()
    try:
        plan = _plan(directory)
        wanted = set(options.node or ()) or {node.id for node in plan.nodes}
        if unknown := wanted - {node.id for node in plan.nodes}:
            return complain(f"there is no node {min(unknown)} in {directory}", MISUSED)
        nodes = [node for node in plan.nodes if node.id in wanted]
        restart(plan, directory, nodes, lambda words: print(f"odradek: {words}", flush=True))
    except (ClusterFailed, ValueError, OSError) as error:
        return complain(error, FAILED)
    return 0


def _plan(directory: Path) -> Plan:
    """Raises ClusterFailed where there is no cluster, ValueError, OSError."""
    from .cluster_plan import read_plan
    from .cluster_processes import ClusterFailed

    plan = read_plan(directory)
    if plan is None:
        raise ClusterFailed(f"there is no cluster in {directory}; start one with `odradek cluster start`")
    return plan


def _status(plan: Plan, directory: Path) -> list[str]:
    """The lines of `odradek cluster status`: read from the first node that responds, and from the processes themselves."""
    from .cluster_processes import node_pids
    from .cluster_queries import responses_of

    pids = node_pids(plan, directory)
    responses = responses_of(plan, directory, pids)
    missing = _missing_quorum(plan, pids)
    if missing and responses is not None:
        responses = responses._replace(quorum=None)  # a controller that was active finds out seconds later
    lines = _table(plan, pids, responses)
    if responses is not None:
        lines += _sums(responses)
    if not pids:
        lines.append("no node runs; `odradek cluster start` starts them")
    elif missing:
        lines.append(missing)
    elif responses is None or responses.quorum is None:
        lines.append("no controller is active yet, although enough controllers run")
    return lines


def _missing_quorum(plan: Plan, pids: dict[int, int]) -> str:
    """Returns why the controllers have no majority; "" when enough of them run."""
    controllers = [node for node in plan.nodes if node.controller_port]
    alive = sum(node.id in pids for node in controllers)
    needed = len(controllers) // 2 + 1
    if alive >= needed:
        return ""
    return (
        f"no quorum: {alive} of {len(controllers)} controllers run, and {needed} are needed; "
        "`odradek start` with the server.properties of a node that is down starts it"
    )


def _partitions(responses: Responses) -> list[MetadataResponsePartition]:
    return [partition for topic in responses.metadata.topics for partition in topic.partitions]


def _table(plan: Plan, pids: dict[int, int], responses: Responses | None) -> list[str]:
    serving = {broker.node_id for broker in responses.metadata.brokers} if responses is not None else set()
    partitions = _partitions(responses) if responses is not None else []
    leads = Counter(partition.leader_id for partition in partitions)
    replicas = Counter(broker for partition in partitions for broker in partition.replica_nodes)
    in_sync = Counter(broker for partition in partitions for broker in partition.isr_nodes)
    leader = responses.quorum.leader_id if responses is not None and responses.quorum is not None else None
    rows = [("NODE", "ROLES", "ADDRESS", "PID", "STATE", "LEADS", "REPLICAS", "IN SYNC")]
    for node in plan.nodes:
        roles = node.roles + (" (active)" if node.id == leader else "")
        pid = pids.get(node.id)
        state = "down" if pid is None else "serving" if node.id in serving else "fenced"
        counts = (str(counted[node.id]) for counted in (leads, replicas, in_sync))
        rows.append((str(node.id), roles, node.address, str(pid or "-"), state, *counts))  # type: ignore[arg-type]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]


def _sums(responses: Responses) -> list[str]:
    partitions = _partitions(responses)
    under = sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions)
    offline = sum(partition.leader_id < 0 for partition in partitions)
    lines = [
        f"topics {len(responses.metadata.topics)}, partitions {len(partitions)}, under-replicated {under}, offline {offline}"
    ]
    quorum = responses.quorum
    if quorum is not None:
        ends = {voter.replica_id: voter.log_end_offset for voter in quorum.current_voters}
        behind = ", ".join(f"{node} {_lag(quorum.high_watermark, end)}" for node, end in sorted(ends.items()))
        lines.append(
            f"controller {quorum.leader_id} in epoch {quorum.leader_epoch}, metadata offset {quorum.high_watermark}, "
            f"lag of voters: {behind}"
        )
    return lines


def _lag(high_watermark: int, end_offset: int) -> str:
    """A leader does not know the end of a voter that has not fetched from it."""
    return str(max(0, high_watermark - end_offset)) if end_offset >= 0 else "unknown"
