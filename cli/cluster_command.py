"""`odradek cluster start|status|stop|restart`: several processes on one machine as one cluster, to use its cores."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.message_text import shown
from .client.commands import second_words
from .command_parser import CommandParser, UsageError
from .local_cluster.security import NAMES, ClusterSecurity, chosen
from .messages import FAILED, MISUSED, complain, warn
from .options import add_override, overrides_of, path, port
from .stop_signals import ignore_stop_signals, stop_on_signals

if TYPE_CHECKING:
    from ..protocol.internal.cluster_metadata import UserScramCredentialRecord
    from .local_cluster.plan import Plan
    from .local_cluster.processes import ClusterProcesses

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
    from ..storage.files.failures import LogDirectoryFailure
    from ..storage.files.meta_properties import InvalidMetaProperties
    from ..storage.files.modes import make_folder
    from .local_cluster.node_processes import ClusterFailed
    from .local_cluster.plan import CannotListen
    from .local_cluster.watcher import watching

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
    from .local_cluster.node_files import write_properties
    from .local_cluster.node_processes import ClusterFailed, node_pids
    from .local_cluster.plan import ListenerNames, grown, read_plan, write_plan
    from .local_cluster.processes import ClusterProcesses

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
    from ..client.properties_file import read_properties
    from ..server.config.unknown_properties import unknown_properties
    from .local_cluster.plan import OWN_KEYS

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
    from .local_cluster.node_files import properties

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
    from .local_cluster.node_files import format_node

    for node in plan.nodes:
        format_node(plan, directory, node, users)


def _signals() -> Callable[[], bool]:
    """Returns a function that is True once SIGTERM or SIGINT has come."""
    reported: list[bool] = []  # no threading.Event: a signal within the handler of another would wait for its lock
    stop_on_signals(lambda: reported.append(True))
    return lambda: bool(reported)


def run_status(options: argparse.Namespace) -> int:
    from .local_cluster.plan import read_plan
    from .local_cluster.status import status

    directory = options.data_dir.resolve()
    try:
        plan = read_plan(directory)
    except (ValueError, OSError) as error:
        return complain(error, FAILED)
    if plan is None:
        return complain(f"there is no cluster in {directory}; start one with `odradek cluster start`", FAILED)

    try:
        lines = status(plan, directory)
    except (ValueError, OSError) as error:  # stores and properties of the nodes
        return complain(error, FAILED)
    print("\n".join(lines))
    return 0


def run_stop(options: argparse.Namespace) -> int:
    from .local_cluster.node_processes import ClusterFailed, end, node_pids
    from .local_cluster.watcher import watcher_pid

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
    from .local_cluster.node_processes import ClusterFailed
    from .local_cluster.restart import restart

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
    from .local_cluster.node_processes import ClusterFailed
    from .local_cluster.plan import read_plan

    plan = read_plan(directory)
    if plan is None:
        raise ClusterFailed(f"there is no cluster in {directory}; start one with `odradek cluster start`")
    return plan
