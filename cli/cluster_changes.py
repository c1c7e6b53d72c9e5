"""`odradek cluster elect-leaders|set-feature`: changes of leaders and of feature levels in a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..admin import reassignments
from ..admin.connection import Connection
from ..admin.features import Change, describe_features, update_features
from ..admin.topics import described_topics
from ..client.error_kinds import ErrorKind
from ..client.properties import pairs
from ..client.user_errors import Misused, UserError
from .client.options import DryRun, client_command, new_app
from .client.value_completion import complete_topic
from .output import Output

if TYPE_CHECKING:
    from ..admin.topics import Partition

elect_leaders_app = new_app("Elect the preferred leaders of partitions.")
set_feature_app = new_app("Upgrade and downgrade features.")


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
    with connection.admin() as admin:
        wanted = [
            (str(topic.name), one.partition_index)
            for topic in described_topics(admin, topics)
            for one in topic.partitions
            if (one.leader_id < 0 if unclean else _has_other_leader(one))
        ]
        if wanted and not dry_run:
            reassignments.elect_leaders(admin, wanted, unclean=unclean)
    why = "every partition has a leader" if unclean else "preferred replicas lead, or are not in the ISR"
    output.changed("elected", [f"{topic}-{index}" for topic, index in wanted], dry_run=dry_run, nothing=why)


def _has_other_leader(partition: Partition) -> bool:
    preferred = partition.replica_nodes[0]
    return bool(partition.leader_id != preferred and preferred in partition.isr_nodes)


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
    wanted = {name: _level(name, text) for name, text in pairs(levels, "set-feature").items()}
    with connection.admin() as admin:
        described = describe_features(admin)
        updates = {}
        for name, level in wanted.items():
            if name not in described:
                raise UserError(
                    f"there is no feature {name}; `odradek cluster features` lists them", ErrorKind.NOT_FOUND
                )
            finalized = described[name].finalized
            downgrade = Change.UNSAFE_DOWNGRADE if unsafe else Change.SAFE_DOWNGRADE
            updates[name] = level, downgrade if finalized and level < finalized.highest else Change.UPGRADE
        update_features(admin, updates, validate_only=dry_run)
    output.changed("set", [f"{name}={level}" for name, level in wanted.items()], dry_run=dry_run)


def _level(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 1 << 15):
        raise Misused(f"{name}={text!r}: a level is a number from 0 to 32767")
    return int(text)
