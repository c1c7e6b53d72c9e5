"""`odradek cluster start|status|stop`: several processes on one machine as one cluster, the way to use its cores, too."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .options import complain

DEFAULT_DATA_DIR = "odradek-cluster"

EPILOG = """\
examples:
  odradek cluster start                              three brokers on 127.0.0.1:9092 to 9094
  odradek cluster start --brokers 5 --port 0         on any free ports; the line it prints says which
  odradek cluster status
  odradek cluster stop

The first three nodes are controllers too. Topics have three replicas and take writes while two of them live.
Each node has a folder of its own, with its server.properties: `odradek start node-1/server.properties` starts one that died.
"""


def add_to(commands: Any) -> None:
    command = commands.add_parser(
        "cluster",
        help="start, look at or stop a cluster on this machine",
        description="Several brokers on this machine that behave as one cluster.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = command.add_subparsers(title="commands", dest="verb", metavar="COMMAND", required=True)
    start = verbs.add_parser("start", help="start all nodes, and stop them on SIGTERM or SIGINT")
    start.add_argument("--brokers", type=_count, default=None, metavar="N", help="how many (default: 3, or as before)")
    start.add_argument(
        "--port", type=int, metavar="P", help="the first broker's; 0 for any (default: 9092, or as before)"
    )
    start.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="a property of every node; may be repeated"
    )
    start.set_defaults(run=run_start)
    verbs.add_parser("status", help="show nodes, leaders and replicas").set_defaults(run=run_status)
    verbs.add_parser("stop", help="stop all nodes").set_defaults(run=run_stop)
    for verb in verbs.choices.values():
        verb.add_argument(
            "--data-dir",
            type=Path,
            default=Path(DEFAULT_DATA_DIR),
            metavar="D",
            help=f"where the nodes have their folders (default: ./{DEFAULT_DATA_DIR})",
        )


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of brokers from 1 to 100")
    return int(text)


def run_start(options: argparse.Namespace) -> int:
    from .cluster_plan import grown, read_plan, write_plan, write_properties
    from .cluster_processes import PID_FILE, ClusterFailed, ClusterProcesses, node_pid, watcher_pid

    directory = options.data_dir.resolve()
    try:
        plan = read_plan(directory)
        if plan is not None and (watcher_pid(directory) or any(node_pid(directory, n) for n in plan.nodes)):
            return complain(f"the cluster in {directory} runs already; `odradek cluster stop` ends it")
        known = len(plan.nodes) if plan is not None else 3
        port = options.port if options.port is not None else (9092 if plan is None else 0)
        plan = grown(plan, options.brokers or known, port or None)
        write_plan(directory, plan)
        write_properties(plan, directory, _overrides(options.override))
        _format(plan, directory)
    except (ValueError, OSError) as error:
        return complain(error)
    is_stopped = _signals()
    (directory / PID_FILE).write_text(f"{os.getpid()}\n", encoding="utf-8")
    cluster = ClusterProcesses(plan, directory)
    try:
        cluster.begin()
        if cluster.await_serving(is_stopped):
            addresses = ",".join(plan.addresses)
            print(f"odradek: {len(plan.nodes)} brokers serving on {addresses} (data in {directory})", flush=True)
            cluster.wait(is_stopped)
    except ClusterFailed as failed:
        return complain(failed)
    finally:
        in_order = cluster.stop()
        (directory / PID_FILE).unlink(missing_ok=True)
    return 0 if in_order else complain("not every node stopped in time")


def _overrides(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--override takes KEY=VALUE, not {text!r}")
        found[key.strip()] = value.strip()
    return found


def _format(plan: Any, directory: Path) -> None:
    """All nodes belong to one cluster from the beginning."""
    from ..server.config import BrokerConfig, read_properties
    from ..server.formatting import format_directories
    from .cluster_plan import properties_file

    for node in plan.nodes:
        config = BrokerConfig(read_properties(properties_file(directory, node)))
        format_directories(config, plan.cluster_id, ignore_formatted=True)


def _signals() -> Callable[[], bool]:
    """Whether SIGTERM or SIGINT has come."""
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, frame: told.append(got))
    return lambda: bool(told)


def run_status(options: argparse.Namespace) -> int:
    from .cluster_plan import read_plan

    directory = options.data_dir.resolve()
    try:
        plan = read_plan(directory)
    except ValueError as error:
        return complain(error)
    if plan is None:
        return complain(f"there is no cluster in {directory}")
    from .cluster_status import status

    print("\n".join(status(plan, directory)))
    return 0


def run_stop(options: argparse.Namespace) -> int:
    from .cluster_plan import read_plan
    from .cluster_processes import end, node_pid, watcher_pid

    directory = options.data_dir.resolve()
    try:
        plan = read_plan(directory)
    except ValueError as error:
        return complain(error)
    if plan is None:
        return complain(f"there is no cluster in {directory}")
    watcher = watcher_pid(directory)
    pids = [watcher] if watcher is not None else [p for n in plan.nodes if (p := node_pid(directory, n)) is not None]
    if not pids:
        return complain(f"the cluster in {directory} does not run")
    return 0 if end(pids) else complain("not every node stopped in time")
