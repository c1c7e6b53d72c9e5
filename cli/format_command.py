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
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ..metadata.configs import InvalidConfig
    from ..server.config import BrokerConfig
    from ..server.formatting import AlreadyFormatted, format_directories

    try:
        config = BrokerConfig(properties_of(options))
        cluster_id = format_directories(config, options.cluster_id, ignore_formatted=options.ignore_formatted)
    except (UsageError, InvalidConfig, AlreadyFormatted, ValueError, OSError) as error:
        return complain(error)
    print(f"odradek: formatted {', '.join(config.log_dirs)} for cluster {cluster_id}")
    return 0
