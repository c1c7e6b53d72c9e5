"""`odradek group`: its commands. Kinds are classic, consumer (KIP-848), share (KIP-932) and streams (KIP-1071)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ...admin.connection import Connection
from ...admin.group_lag import lags
from ...admin.group_offsets import delete_offsets
from ...admin.groups import delete_group
from ...admin.groups import list_groups as group_rows
from ...admin.lag import Lag, Total, total_of
from ...admin.offset_reset import chosen_places, commit, stored_offsets, targets
from ...admin.positions import parse_position
from ...admin.share_offsets import delete_share_offsets
from ...client.error_kinds import ErrorKind
from ...client.suggestions import did_you_mean
from ...client.user_errors import Misused, UserError
from ...client.wording import counted
from ..client.options import DryRun, Yes, client_command, new_app, one_of
from ..client.value_completion import complete_group
from ..messages import warn
from ..output import Output, Table
from .descriptions import GroupDescription, ListedGroup, description_of, share_groups, streams_groups

if TYPE_CHECKING:
    from ...admin.session import Admin

app = new_app("Show and change classic, consumer, share and streams groups.")

Name = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_group)]
Names = Annotated[list[str], typer.Argument(metavar="GROUP...", autocompletion=complete_group)]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC[:0,2]", help="only this topic; may be repeated")
]

#: States of groups whose offsets may be set; brokers before Kafka 2.6 name none.
_WITHOUT_MEMBERS = ("Empty", "Dead", "")
_KINDS = ("classic", "consumer", "share", "streams")
#: Those of all kinds, as the protocol names them.
_STATES = (
    "Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Dead",
)  # fmt: skip


def _listed(admin: Admin) -> list[ListedGroup]:
    found: list[ListedGroup] = [
        {
            "group": one.group_id,
            "kind": one.kind,
            "state": one.group_state,
            "protocol": one.protocol_type,
        }
        for one in group_rows(admin)
    ]
    return sorted(found, key=lambda one: one["group"])


def _group_to_reset(admin: Admin, name: str, *, creates: bool) -> ListedGroup | None:
    """The group; None where a reset creates it. Raises UserError for one that does not exist or has members."""
    by_name = {one["group"]: one for one in _listed(admin)}
    found = by_name.get(name)
    if found is None and not creates:
        hint = did_you_mean(name, by_name)
        raise UserError(f"group {name} does not exist{hint or ';'} --create creates it", ErrorKind.NOT_FOUND)
    if found is not None and found["state"] not in _WITHOUT_MEMBERS:
        raise UserError(f"group {name} has members (its state is {found['state']}); stop its members first")
    return found


def _known(admin: Admin, names: list[str]) -> list[ListedGroup]:
    by_name = {one["group"]: one for one in _listed(admin)}
    for name in names:
        if name not in by_name:
            hint = did_you_mean(name, by_name)
            raise UserError(
                f"group {name} does not exist{hint or ';'} `odradek group list` lists the groups", ErrorKind.NOT_FOUND
            )
    return [by_name[name] for name in names]


@app.command("list")
@client_command
def list_groups(
    connection: Connection,
    output: Output,
    kind: Annotated[
        str | None, typer.Option("--kind", help="only groups of this kind: classic, consumer, share or streams")
    ] = None,
    state: Annotated[
        str | None, typer.Option("--state", help="only groups in this state, such as Stable or Empty")
    ] = None,
) -> None:
    """List groups."""
    kind, state = one_of("--kind", kind, _KINDS), one_of("--state", state, _STATES)
    with connection.admin() as admin:
        found = [one for one in _listed(admin) if kind in (None, one["kind"]) and state in (None, one["state"])]
    output.show(found, Table("", ("GROUP", "KIND", "STATE", "PROTOCOL"), [list(one.values()) for one in found]))


@app.command()
@client_command
def describe(names: Names, connection: Connection, output: Output) -> None:
    """Show state, members with their partitions, offsets and lag of groups."""
    with connection.admin() as admin:
        listed = _known(admin, names)
        behind = lags(admin, _kinds(listed))
        described = share_groups(admin, [one["group"] for one in listed if one["kind"] == "share"])
        described |= streams_groups(admin, [one["group"] for one in listed if one["kind"] == "streams"])
        for one in listed:
            if one["kind"] in ("classic", "consumer"):
                described[one["group"]] = description_of(admin, one)
    absent: GroupDescription = {"assignor": None, "coordinator": None, "members": None}
    rows = [
        {
            **group_row,
            **described.get(group_row["group"], absent),
            "offsets": [_row(lag) for lag in behind.get(group_row["group"], ())],
        }
        for group_row in listed
    ]
    keys = ("group", "kind", "state", "assignor", "coordinator")
    about = Table("Groups", [key.upper() for key in keys], [[row[key] for key in keys] for row in rows])
    members = Table(
        "Members",
        ("GROUP", "MEMBER", "CLIENT", "HOST", "PARTITIONS"),
        [
            (group_row["group"], member["member"], member["client"], member["host"], " ".join(member["partitions"]))
            for group_row in listed
            for member in described.get(group_row["group"], absent)["members"] or ()
        ],
    )
    offsets = _offset_table({group_row["group"]: behind.get(group_row["group"], []) for group_row in listed})
    offsets.title = "Offsets"
    output.show(rows, offsets, about, members)
    _explain(output, {group: total_of(rows) for group, rows in behind.items()})


def _kinds(groups: list[ListedGroup]) -> dict[str, str]:
    return {one["group"]: one["kind"] for one in groups}


def _row(lag: Lag) -> dict[str, object]:
    return {
        "topic": lag.topic,
        "partition": lag.partition,
        "committed": lag.committed,
        "end": lag.end,
        "lag": lag.lag,
    }


def _offset_table(behind: dict[str, list[Lag]]) -> Table:
    rows = [(group, *_row(lag).values()) for group, found in behind.items() for lag in found]
    return Table("", ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG"), rows)


@app.command()
@client_command
def lag(
    connection: Connection,
    output: Output,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP...]", help="default: all groups", autocompletion=complete_group),
    ] = None,
    total: Annotated[bool, typer.Option("--total", help="one line for each group")] = False,
    most: Annotated[
        int | None,
        typer.Option(
            "--max", metavar="N", min=0, help="exit with status 1 when the lag of a group is larger, or unknown"
        ),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="count partitions without a commit from their first record")
    ] = False,
) -> None:
    """Show the lag of groups. A partition without a commit has none, unless --from-start counts it."""
    with connection.admin() as admin:
        kinds = _kinds(_known(admin, names) if names else _listed(admin))
        behind = lags(admin, kinds, from_start=from_start)
    sums = {group: total_of(found) for group, found in behind.items()}
    if total:
        found = [
            {
                "group": group,
                "partitions": one.partitions,
                "lag": one.lag,
                "uncommitted": one.uncommitted,
                "unknown": one.unknown,
            }
            for group, one in sums.items()
        ]
        columns = ("GROUP", "PARTITIONS", "LAG", "UNCOMMITTED", "UNKNOWN")
        output.show(found, Table("", columns, [list(one.values()) for one in found]))
    else:
        output.show([{"group": group, **_row(one)} for group in behind for one in behind[group]], _offset_table(behind))
    _explain(output, sums, from_start=from_start)
    if most is not None:
        _check_most(sums, most)


def _explain(output: Output, sums: dict[str, Total], *, from_start: bool = False) -> None:
    """Tells people about partitions without a commit, and about those whose lag is not known."""
    if output.form != "table":
        return
    for group, one in sums.items():
        if one.uncommitted:
            words = "they count from their first record" if from_start else "they have no lag; --from-start counts them"
            warn(
                f"group {group}: {one.uncommitted} of {counted(one.partitions, 'partition')} without a commit: {words}"
            )
        if one.unknown:
            warn(f"group {group}: the lag of {counted(one.unknown, 'partition')} is unknown: no leader responds")


def _check_most(sums: dict[str, Total], most: int) -> None:
    """Raises UserError where the lag of a group is larger, or is not known."""
    over = {group: one.lag for group, one in sums.items() if one.lag is not None and one.lag > most}
    if over:
        words = ", ".join(f"{group} has {count}" for group, count in sorted(over.items()))
        raise UserError(f"lag of more than {counted(most, 'record')}: {words}")
    unknown = {group: one.unknown for group, one in sums.items() if one.unknown}
    if unknown:
        words = ", ".join(f"{group} in {counted(count, 'partition')}" for group, count in sorted(unknown.items()))
        raise UserError(f"the lag is unknown, and may be more than {counted(most, 'record')}: {words}")


@app.command()
@client_command
def reset(
    name: Name,
    connection: Connection,
    output: Output,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="POSITION", help="beginning, end, N, -N (the last N), @TIME, -1h, or stored"),
    ] = None,
    shift: Annotated[
        int, typer.Option("--shift", metavar="N", help="move by N records: forward, or back when negative")
    ] = 0,
    topic: Topics = None,
    share: Annotated[bool, typer.Option("--share", help="create a group that does not exist as a share group")] = False,
    create: Annotated[bool, typer.Option("--create", help="create a group that does not exist")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Set the offsets of a group without members; those of a share group are its start offsets.

    Shows the offsets before and after. On a terminal, asks for confirmation.
    """
    if to is None and not shift:
        raise Misused("give --to POSITION or --shift N")
    position = parse_position(to) if to is not None else None
    with connection.admin() as admin:
        listed = _group_to_reset(admin, name, creates=create or share)
        shares = share or (listed is not None and listed["kind"] == "share")
        before = stored_offsets(admin, name, shares=shares)
        places = chosen_places(admin, name, topic or [], before)
        after = targets(admin, name, places, position, shift, before, note=warn)
        found = [
            {
                "topic": place[0],
                "partition": place[1],
                "before": before.get(place),
                "after": after[place],
                "dry_run": dry_run,
            }
            for place in places
        ]
        if not dry_run:
            if sys.stdin.isatty() and not yes:
                typer.confirm(f"Set {counted(len(places), 'offset')} of group {name}?", abort=True, err=True)
            commit(admin, name, after, shares=shares)
    table = Table("", ("TOPIC", "PARTITION", "BEFORE", "AFTER"), [list(one.values())[:4] for one in found])
    output.show(found, table)


@app.command()
@client_command
def delete(
    names: Names,
    connection: Connection,
    output: Output,
    topic: Topics = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete groups without members, or with --topic only their offsets of a topic."""
    if sys.stdin.isatty() and not yes and not dry_run:
        typer.confirm(f"Delete {'offsets of ' if topic else ''}{', '.join(names)}?", abort=True, err=True)
    with connection.admin() as admin:
        done = []
        for one in _known(admin, names):
            name = one["group"]
            if topic and one["kind"] == "share":
                done += _delete_share_offsets(admin, name, topic, dry_run=dry_run)
            elif topic:
                done += _delete_offsets(admin, name, topic, dry_run=dry_run)
            else:
                done += _delete_group(admin, one, dry_run=dry_run)
    output.changed("deleted", done, dry_run=dry_run)


def _delete_group(admin: Admin, group: ListedGroup, *, dry_run: bool) -> list[str]:
    if not dry_run:
        delete_group(admin, group["group"])
    elif group["state"] not in _WITHOUT_MEMBERS:
        raise UserError(f"group {group['group']} has members (its state is {group['state']}); stop its members first")
    return [group["group"]]


def _delete_offsets(admin: Admin, name: str, topics: list[str], *, dry_run: bool) -> list[str]:
    places = chosen_places(admin, name, topics)
    if not dry_run:
        delete_offsets(admin, name, places)
    return [f"{name}: {topic}-{partition}" for topic, partition in places]


def _delete_share_offsets(admin: Admin, name: str, topics: list[str], *, dry_run: bool) -> list[str]:
    if any(":" in topic for topic in topics):
        raise Misused(f"{name} is a share group: leave out :PARTITIONS; a share group's offsets are deleted by topic")
    held = {topic for topic, _ in stored_offsets(admin, name, shares=True)}
    absent = [topic for topic in topics if topic not in held]
    if absent:
        raise UserError(f"group {name} has no offsets of {', '.join(absent)}", ErrorKind.NOT_FOUND)
    if not dry_run:
        delete_share_offsets(admin, name, topics)
    return [f"{name}: {topic}" for topic in topics]
