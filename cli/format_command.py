"""`odradek format`: makes a data directory ready, as Apache Kafka's storage tool does."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.message_text import shown
from .broker_properties import properties_of
from .command_parser import UsageError
from .messages import FAILED, MISUSED, complain
from .options import add_configuration, process_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.internal.cluster_metadata import UserScramCredentialRecord
    from ..server.config.broker_config import BrokerConfig
    from ..server.controller.formatting import InitialVoter
    from .command_parser import CommandParser

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")
#: Levels of features are 16 bits.
_LEVEL = re.compile(r"[0-9]{1,5}")


def add_to(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = commands.add_parser(
        "format",
        help="format a data directory",
        description=(
            "Writes meta.properties and the first metadata snapshot into every log directory. `odradek start` does this "
            "automatically for an empty directory; run `odradek format` to choose the cluster id."
        ),
    )
    add_configuration(command)
    command.add_argument(
        "-t", "--cluster-id", metavar="ID", help="22 characters of URL-safe base64 (default: a new one)"
    )
    command.add_argument(
        "--processes",
        type=process_count,
        metavar="N|auto",
        help="format the folders of `odradek start --processes N`, those that are not formatted yet",
    )
    command.add_argument("--ignore-formatted", action="store_true", help="skip directories that are already formatted")
    command.add_argument(
        "-f",
        "--feature",
        metavar="NAME=LEVEL",
        action="append",
        default=[],
        help="level of a feature in the new cluster, such as share.version=2; may be repeated",
    )
    command.add_argument(
        "-S",
        "--add-scram",
        metavar="MECHANISM=[...]",
        action="append",
        default=[],
        help="a user of the new cluster, such as SCRAM-SHA-512=[name=alice,password=...]; may be repeated",
    )
    voters = command.add_mutually_exclusive_group()
    voters.add_argument("-s", "--standalone", action="store_true", help="this node is the first and only voter")
    voters.add_argument(
        "-I",
        "--initial-controllers",
        metavar="LIST",
        help="the first voters, as id@host:port:directory,... with directory ids of 22 characters; the same list "
        "on every voter",
    )
    voters.add_argument(
        "-N",
        "--no-initial-controllers",
        action="store_true",
        help="other nodes are the voters; this node may join them later",
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ..metadata.configs import InvalidConfig
    from ..server.config.broker_config import BrokerConfig
    from ..server.controller.formatting import AlreadyFormatted, format_directories
    from ..storage.files.failures import LogDirectoryFailure
    from ..storage.files.meta_properties import InvalidMetaProperties

    try:
        if options.processes is not None:
            print(_format_processes(options))
            return 0
        config = BrokerConfig(properties_of(options))
        before = _cluster_ids(config)
        _check_cluster_id(options.cluster_id, before)
        cluster_id = format_directories(
            config,
            options.cluster_id,
            ignore_formatted=options.ignore_formatted,
            initial_voters=_initial_voters(options, config),
            features=_features(options.feature),
            users=_users(options.add_scram),
        )
    except (UsageError, InvalidConfig) as error:
        return complain(error, MISUSED)
    except (AlreadyFormatted, InvalidMetaProperties, LogDirectoryFailure, OSError) as error:
        return complain(error, FAILED)
    except ValueError as error:  # a feature or a level that is not known
        return complain(error, MISUSED)
    print(_outcome(before, cluster_id))
    return 0


def _format_processes(options: argparse.Namespace) -> str:
    """Raises what `run` explains."""
    from .processes.members import format_members, service_of

    if options.standalone or options.initial_controllers is not None or options.no_initial_controllers:
        raise UsageError("--processes: controller.quorum.voters names the voters; leave out the options for voters")
    service = service_of(properties_of(options), options.processes)
    _check_cluster_id(options.cluster_id, {})
    features, users = _features(options.feature), _users(options.add_scram)
    cluster_id = format_members(service, options.cluster_id, features=features, users=users)
    return f"odradek: {service.root} is formatted for cluster {cluster_id}, with {len(service.brokers)} brokers"


def _cluster_ids(config: BrokerConfig) -> dict[str, str | None]:
    """Each log directory with the cluster that it belongs to; None for one that is not formatted."""
    from ..storage.files.meta_properties import read_meta_properties

    found = {}
    for directory in dict.fromkeys([*config.log_dirs, config.metadata_log_dir]):
        if Path(directory).exists() and not Path(directory).is_dir():
            raise UsageError(f"{directory} is not a directory: move the file away, or choose another directory")
        properties = read_meta_properties(directory)
        found[directory] = properties.cluster_id if properties is not None else None
    return found


def _check_cluster_id(cluster_id: str | None, known: dict[str, str | None]) -> None:
    """Directories that Apache Kafka formatted may have any text for an id; a new one is a UUID. Raises UsageError."""
    if cluster_id is None or cluster_id in known.values() or _CLUSTER_ID.fullmatch(cluster_id):
        return
    raise UsageError(
        f"--cluster-id {shown(cluster_id)} is not 22 characters of URL-safe base64, as in MkU3OEVBNTcwNTJENDM2Qg; without "
        "the option, a random id is used"
    )


def _outcome(before: dict[str, str | None], cluster_id: str) -> str:
    made = [directory for directory, known in before.items() if known is None]
    left = [directory for directory, known in before.items() if known is not None]
    if not made:
        return f"odradek: nothing to do, {', '.join(left)} formatted already for cluster {cluster_id}"
    rest = f" (left alone, formatted already: {', '.join(left)})" if left else ""
    return f"odradek: formatted {', '.join(made)} for cluster {cluster_id}{rest}"


def _features(texts: list[str]) -> dict[str, int]:
    """Raises UsageError."""
    levels: dict[str, int] = {}
    for text in texts:
        name, _, level = text.partition("=")
        if not name or not _LEVEL.fullmatch(level) or name in levels:
            raise UsageError(f"--feature {shown(text)} is not NAME=LEVEL, as in share.version=2, with each name once")
        levels[name] = int(level)
    return levels


def _users(texts: list[str]) -> list[UserScramCredentialRecord]:
    """The records of SCRAM users; raises UsageError."""
    if not texts:
        return []
    from .scram_option import scram_user

    return [scram_user(text) for text in texts]


def _initial_voters(options: argparse.Namespace, config: BrokerConfig) -> Sequence[InitialVoter] | None:
    """Returns the initial voters, None to use the configuration. Raises UsageError and InvalidConfig."""
    from ..server.controller.formatting import read_initial_voters, standalone_voters

    if not (options.standalone or options.initial_controllers is not None or options.no_initial_controllers):
        return None
    if config.get("controller.quorum.voters"):
        raise UsageError(
            "controller.quorum.voters already names the voters; remove it, or leave out the options for voters"
        )
    if options.no_initial_controllers:
        return ()
    if not config.is_controller:
        raise UsageError("this node is not a controller (process.roles), so it cannot be a voter")
    if options.standalone:
        return standalone_voters(config)
    voters = read_initial_voters(options.initial_controllers)
    if config.node_id not in {voter.id for voter in voters}:
        raise UsageError(f"node.id {config.node_id} is not among {options.initial_controllers}")
    return voters
