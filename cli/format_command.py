"""`odradek format`: makes a data directory ready, as Apache Kafka's storage tool does."""

from __future__ import annotations

import argparse
from typing import Any

from .options import UsageError, add_configuration, complain, properties_of


def add_to(commands: Any) -> None:
    command = commands.add_parser(
        "format",
        help="format a data directory",
        description=(
            "Writes meta.properties and the first metadata snapshot into every log directory. `odradek start` does this "
            "by itself for an empty directory; do it explicitly to choose the cluster id."
        ),
    )
    add_configuration(command)
    command.add_argument(
        "-t", "--cluster-id", metavar="ID", help="22 characters of URL-safe base64 (default: a new one)"
    )
    command.add_argument(
        "--ignore-formatted", action="store_true", help="leave directories alone that are formatted already"
    )
    command.add_argument(
        "-f",
        "--feature",
        metavar="NAME=LEVEL",
        action="append",
        default=[],
        help="a feature's level in the new cluster, as share.version=2; may be given several times",
    )
    voters = command.add_mutually_exclusive_group()
    voters.add_argument("-s", "--standalone", action="store_true", help="this node is the first and only voter")
    voters.add_argument(
        "-I",
        "--initial-controllers",
        metavar="LIST",
        help="the first voters, as id@host:port:directory,... with directory ids of 22 characters; the same on each of them",
    )
    voters.add_argument(
        "-N", "--no-initial-controllers", action="store_true", help="others vote; this node may join them later"
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ..metadata.configs import InvalidConfig
    from ..server.config import BrokerConfig
    from ..server.formatting import AlreadyFormatted, format_directories

    try:
        config = BrokerConfig(properties_of(options))
        cluster_id = format_directories(
            config,
            options.cluster_id,
            ignore_formatted=options.ignore_formatted,
            initial_voters=_initial_voters(options, config),
            features=_features(options.feature),
        )
    except (UsageError, InvalidConfig, AlreadyFormatted, ValueError, OSError) as error:
        return complain(error)
    print(f"odradek: formatted {', '.join(config.log_dirs)} for cluster {cluster_id}")
    return 0


def _features(texts: list[str]) -> dict[str, int]:
    """Raises UsageError."""
    levels: dict[str, int] = {}
    for text in texts:
        name, _, level = text.partition("=")
        if not name or not level.isdecimal() or name in levels:
            raise UsageError(f"{text!r} is not NAME=LEVEL, as in share.version=2, with each name once")
        levels[name] = int(level)
    return levels


def _initial_voters(options: argparse.Namespace, config: Any) -> Any:
    """None for what the configuration says; raises UsageError and InvalidConfig."""
    from ..server.formatting import read_initial_voters, standalone_voters

    if not (options.standalone or options.initial_controllers or options.no_initial_controllers):
        return None
    if config.get("controller.quorum.voters"):
        raise UsageError("controller.quorum.voters says who votes already; take it away, or format without saying who")
    if options.no_initial_controllers:
        return ()
    if not config.is_controller:
        raise UsageError("this node is no controller (process.roles), and cannot vote")
    if options.standalone:
        return standalone_voters(config)
    voters = read_initial_voters(options.initial_controllers)
    if config.node_id not in {voter.id for voter in voters}:
        raise UsageError(f"node.id {config.node_id} is not among {options.initial_controllers}")
    return voters
