"""`odradek cluster elect-leaders|set-feature`: leaders and feature levels of a running cluster are changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..client.admin_calls import api_error, check, described_topics
from ..client.completing import complete_topic
from ..client.connection import Connection
from ..client.errors import NOT_FOUND, CommandError, Misused
from ..client.options import DryRun, Output, client_command, new_app
from ..client.properties import pairs
from ..client.wire_requests import ask

if TYPE_CHECKING:
    from ...protocol.messages.elect_leaders import ElectLeadersResponse
    from ..client.admin import Partition


elect_leaders_app = new_app("Elect the preferred leaders of partitions.")
set_feature_app = new_app("Upgrade and downgrade features.")

_PREFERRED, _UNCLEAN = 0, 1
_ELECTION_NOT_NEEDED = 84
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


@elect_leaders_app.command("elect-leaders")
@client_command
def elect_leaders(
    connection: Connection,
    output: Output,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC...]", help="default: all topics", autocompletion=complete_topic),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="only leaderless partitions: a replica outside the ISR leads; records may be lost"
        ),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Make the first replica of each partition its leader again, where it is in the ISR and does not lead."""
    from ...protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

    with connection.admin() as admin:
        wanted = [
            (str(topic["name"]), one["partition_index"])
            for topic in described_topics(admin, topics)
            for one in topic["partitions"]
            if (one["leader_id"] < 0 if unclean else _has_other_leader(one))
        ]
        if wanted and not dry_run:
            named: dict[str, list[int]] = {}
            for topic, index in wanted:
                named.setdefault(topic, []).append(index)
            request = ElectLeadersRequest(
                election_type=_UNCLEAN if unclean else _PREFERRED,
                topic_partitions=[TopicPartitions(topic, indexes) for topic, indexes in named.items()],
            )
            _check_elections(ask(admin, request, admin.describe_cluster()["controller_id"]))
    output.changed("elected", [f"{topic}-{index}" for topic, index in wanted], dry_run=dry_run)


def _has_other_leader(partition: Partition) -> bool:
    preferred = partition["replica_nodes"][0]
    return bool(partition["leader_id"] != preferred and preferred in partition["isr_nodes"])


def _check_elections(response: ElectLeadersResponse) -> None:
    """Raises CommandError for the first partition that has no new leader."""
    check("election", response.error_code)
    for topic in response.replica_election_results:
        for one in topic.partition_result:
            if one.error_code and one.error_code != _ELECTION_NOT_NEEDED:
                raise api_error(f"{topic.topic}-{one.partition_id}", one.error_code, one.error_message)


@set_feature_app.command("set-feature")
@client_command
def set_feature(
    levels: Annotated[list[str], typer.Argument(metavar="NAME=LEVEL...", help="feature and level; 0 disables it")],
    connection: Connection,
    output: Output,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="downgrade although metadata of the newer level is lost")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Upgrade or downgrade features to the levels. With --dry-run the controller only validates them."""
    from ...protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

    wanted = {name: _level(name, text) for name, text in pairs(levels, "set-feature").items()}
    with connection.admin() as admin:
        described = admin.describe_features()
        updates = []
        for name, level in wanted.items():
            if name not in described:
                raise CommandError(f"there is no feature {name}; `odradek cluster features` lists them", NOT_FOUND)
            finalized = described[name].get("finalized")
            downgrade = _UNSAFE_DOWNGRADE if unsafe else _SAFE_DOWNGRADE
            kind = downgrade if finalized and level < finalized[1] else _UPGRADE
            updates.append(FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind))
        response = ask(admin, UpdateFeaturesRequest(feature_updates=updates, validate_only=dry_run))
    check("features", response.error_code, response.error_message)
    for one in response.results:
        check(f"feature {one.feature}", one.error_code, one.error_message)
    output.changed("set", [f"{name}={level}" for name, level in wanted.items()], dry_run=dry_run)


def _level(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 1 << 15):
        raise Misused(f"{name}={text!r}: a level is a number from 0 to 32767")
    return int(text)
