"""`odradek group`: its commands. Kinds are classic, consumer (KIP-848), share (KIP-932) and streams (KIP-1071)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

import typer

from ..client.admin import ask, by_coordinator, check
from ..client.connection import Connection
from ..client.errors import NOT_FOUND, CommandError, Misused
from ..client.options import DryRun, Output, Yes, client_command, complete_group, new_app
from ..options import warn
from ..output import Table
from ..records.selection import parse_position
from .offsets import Lag, Total, chosen_places, commit, delete_share_offsets, lags, stored_offsets, targets, total_of

if TYPE_CHECKING:
    from confluent_kafka.admin._group import MemberDescription

    from ...protocol.messages.share_groups import Member as ShareMember
    from ...protocol.messages.share_groups import ShareGroupDescribeResponse
    from ...protocol.messages.streams_groups import DescribedGroup as StreamsGroup
    from ...protocol.messages.streams_groups import Member as StreamsMember
    from ...protocol.messages.streams_groups import StreamsGroupDescribeResponse
    from ..client.admin import AdminClient

app = new_app("Show and change classic, consumer, share and streams groups.")

Name = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_group)]
Names = Annotated[list[str], typer.Argument(metavar="GROUP...", autocompletion=complete_group)]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC[:0,2]", help="only this topic; may be repeated")
]


class ListedGroup(TypedDict):
    group: str
    kind: str
    state: str
    protocol: str


def _listed(admin: AdminClient) -> list[ListedGroup]:
    found: list[ListedGroup] = [
        {
            "group": one["group_id"],
            "kind": str(one.get("group_type") or "classic").lower(),
            "state": one.get("group_state") or "",
            "protocol": one.get("protocol_type") or "",
        }
        for one in admin.list_groups()
    ]
    return sorted(found, key=lambda one: one["group"])


def _shares(admin: AdminClient, name: str) -> bool:
    return any(one["group"] == name and one["kind"] == "share" for one in _listed(admin))


def _known(admin: AdminClient, names: list[str]) -> list[ListedGroup]:
    by_name = {one["group"]: one for one in _listed(admin)}
    for name in names:
        if name not in by_name:
            raise CommandError(f"group {name} does not exist; `odradek group list` lists the groups", NOT_FOUND)
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
    with connection.admin() as admin:
        found = [
            one
            for one in _listed(admin)
            if kind in (None, one["kind"]) and (state is None or state.lower() == one["state"].lower())
        ]
    output.show(found, Table("", ("GROUP", "KIND", "STATE", "PROTOCOL"), [list(one.values()) for one in found]))


@app.command()
@client_command
def describe(names: Names, connection: Connection, output: Output) -> None:
    """Show state, members with their partitions, offsets and lag of groups."""
    with connection.admin() as admin:
        found = _known(admin, names)
        behind = lags(admin, _kinds(found))
        described = _share_groups(admin, [one["group"] for one in found if one["kind"] == "share"])
        described |= _streams_groups(admin, [one["group"] for one in found if one["kind"] == "streams"])
    described |= _described(connection, [one["group"] for one in found if one["kind"] in ("classic", "consumer")])
    absent: GroupDescription = {"assignor": None, "coordinator": None, "members": None}
    rows = [
        {
            **one,
            **described.get(one["group"], absent),
            "offsets": [_row(lag) for lag in behind.get(one["group"], ())],
        }
        for one in found
    ]
    keys = ("group", "kind", "state", "assignor", "coordinator")
    about = Table("Groups", [key.upper() for key in keys], [[row[key] for key in keys] for row in rows])
    members = Table(
        "Members",
        ("GROUP", "MEMBER", "CLIENT", "HOST", "PARTITIONS"),
        [
            (one["group"], member["member"], member["client"], member["host"], " ".join(member["partitions"]))
            for one in found
            for member in described.get(one["group"], absent)["members"] or ()
        ],
    )
    offsets = _offset_table({one["group"]: behind.get(one["group"], []) for one in found})
    offsets.title = "Offsets"
    output.show(rows, offsets, about, members)
    _explain(output, {group: total_of(rows) for group, rows in behind.items()})


def _kinds(found: list[ListedGroup]) -> dict[str, str]:
    return {one["group"]: one["kind"] for one in found}


def _described(connection: Connection, names: list[str]) -> dict[str, GroupDescription]:
    """Members of classic and consumer groups, by confluent-kafka: kafka-python describes classic ones only."""
    if not names:
        return {}
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(connection.librdkafka())
    made: dict[str, GroupDescription] = {}
    for name, future in admin.describe_consumer_groups(names, request_timeout=connection.timeout_s).items():
        group = future.result()
        made[name] = {
            "assignor": group.partition_assignor or None,
            "coordinator": group.coordinator.id if group.coordinator is not None else None,
            "members": [_member(member) for member in group.members],
        }
    return made


def _member(member: MemberDescription) -> Member:
    held = member.assignment.topic_partitions if member.assignment is not None else []
    return {
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.host,
        "partitions": sorted(f"{one.topic}-{one.partition}" for one in held),
    }


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
        typer.Option("--max", metavar="N", help="exit with status 1 when the lag of a group is larger, or unknown"),
    ] = None,
) -> None:
    """Show the lag of groups. A partition without a commit counts from its first record."""
    with connection.admin() as admin:
        behind = lags(admin, _kinds(_known(admin, names) if names else _listed(admin)))
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
    _explain(output, sums)
    if most is not None:
        _check_most(sums, most)


def _explain(output: Output, sums: dict[str, Total]) -> None:
    """Tells people about partitions without a commit, and about those whose lag is not known."""
    if output.form != "table":
        return
    for group, one in sums.items():
        if one.uncommitted:
            warn(
                f"group {group}: {one.uncommitted} records of its lag are in partitions without a commit, from the first "
                "record on; the group reads fewer of them if its members have auto.offset.reset=latest"
            )
        if one.unknown:
            warn(f"group {group}: the lag of {one.unknown} partitions is unknown: no leader responds")


def _check_most(sums: dict[str, Total], most: int) -> None:
    """Raises CommandError where the lag of a group is larger, or is not known."""
    over = {group: one.lag for group, one in sums.items() if one.lag > most}
    if over:
        words = ", ".join(f"{group} by {count}" for group, count in sorted(over.items()))
        raise CommandError(f"lag of more than {most} records: {words}")
    unknown = {group: one.unknown for group, one in sums.items() if one.unknown}
    if unknown:
        words = ", ".join(f"{group} in {count} partitions" for group, count in sorted(unknown.items()))
        raise CommandError(f"the lag is unknown, and may be more than {most} records: {words}")


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
        shares = share or _shares(admin, name)
        before = stored_offsets(admin, name, shares=shares)
        places = chosen_places(admin, name, topic or [], before)
        after = targets(admin, name, places, position, shift, before)
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
                typer.confirm(f"Set {len(places)} offsets of group {name}?", abort=True, err=True)
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
                done += _delete_group(admin, name, dry_run=dry_run)
    output.changed("deleted", done, dry_run=dry_run)


def _delete_group(admin: AdminClient, name: str, *, dry_run: bool) -> list[str]:
    result = "OK" if dry_run else admin.delete_groups([name])[name]
    if result != "OK":
        hint = "; stop its members first" if "NonEmpty" in result else ""
        raise CommandError(f"group {name}: {result.removesuffix('Error')}{hint}")
    return [name]


def _delete_offsets(admin: AdminClient, name: str, topics: list[str], *, dry_run: bool) -> list[str]:
    from kafka.errors import NoError
    from kafka.structs import TopicPartition

    places = chosen_places(admin, name, topics)
    if not dry_run:
        for where, error in admin.delete_group_offsets(name, [TopicPartition(*place) for place in places]).items():
            if error is not NoError:
                word = getattr(error, "message", error.__name__)
                raise CommandError(f"group {name}, {where.topic}-{where.partition}: {word}")
    return [f"{name}: {topic}-{partition}" for topic, partition in places]


def _delete_share_offsets(admin: AdminClient, name: str, topics: list[str], *, dry_run: bool) -> list[str]:
    if any(":" in topic for topic in topics):
        raise Misused(f"{name} is a share group: leave out :PARTITIONS; a share group's offsets are deleted by topic")
    held = {topic for topic, _ in stored_offsets(admin, name, shares=True)}
    absent = [topic for topic in topics if topic not in held]
    if absent:
        raise CommandError(f"group {name} has no offsets of {', '.join(absent)}", NOT_FOUND)
    if not dry_run:
        delete_share_offsets(admin, name, topics)
    return [f"{name}: {topic}" for topic in topics]


class Member(TypedDict):
    """A member of a group of any kind. Only streams groups have tasks."""

    member: str
    instance: str | None
    client: str
    host: str
    partitions: list[str]
    tasks: NotRequired[dict[str, list[str]]]


class GroupDescription(TypedDict):
    """A group as its coordinator describes it. `members` is None where it is not known."""

    assignor: str | None
    coordinator: int | None
    topology_epoch: NotRequired[int | None]
    members: list[Member] | None


# The client libraries have no API for share and streams groups, so these requests are odradek.protocol's.


def _share_groups(admin: AdminClient, names: Iterable[str]) -> dict[str, GroupDescription]:
    """Assignor, coordinator and members of share groups."""
    from ...protocol.messages.share_groups import ShareGroupDescribeRequest

    made: dict[str, GroupDescription] = {}
    for node, groups in by_coordinator(admin, names).items():
        request = ShareGroupDescribeRequest(group_ids=groups, include_authorized_operations=False)
        response: ShareGroupDescribeResponse = ask(admin, request, node)
        for group in response.groups:
            check(f"group {group.group_id}", group.error_code, group.error_message)
            members = [_share_member(member) for member in group.members]
            made[group.group_id] = {"assignor": group.assignor_name or None, "coordinator": node, "members": members}
    return made


def _share_member(member: ShareMember) -> Member:
    places = [
        f"{one.topic_name}-{partition}" for one in member.assignment.topic_partitions for partition in one.partitions
    ]
    return _described_member(member, None, places)


def _streams_groups(admin: AdminClient, names: Iterable[str]) -> dict[str, GroupDescription]:
    """Assignor, coordinator, topology epoch and members with their tasks of streams groups."""
    from ...protocol.messages.streams_groups import StreamsGroupDescribeRequest

    made: dict[str, GroupDescription] = {}
    for node, groups in by_coordinator(admin, names).items():
        request = StreamsGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=False, include_topology_description=False
        )
        response: StreamsGroupDescribeResponse = ask(admin, request, node)
        for group in response.groups:
            check(f"group {group.group_id}", group.error_code, group.error_message)
            made[group.group_id] = {
                "assignor": group.assignor_name or None,
                "coordinator": node,
                "topology_epoch": group.topology.epoch if group.topology is not None else None,
                "members": [_streams_member(member, _sources(group)) for member in group.members],
            }
    return made


def _sources(group: StreamsGroup) -> dict[str, list[str]]:
    """The topics that the tasks of each subtopology read."""
    subtopologies = group.topology.subtopologies if group.topology is not None else None
    return {
        one.subtopology_id: [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        for one in subtopologies or ()
    }


def _streams_member(member: StreamsMember, sources: dict[str, list[str]]) -> Member:
    tasks = {
        kind: sorted(f"{one.subtopology_id}_{number}" for one in held for number in one.partitions)
        for kind, held in (
            ("active", member.assignment.active_tasks),
            ("standby", member.assignment.standby_tasks),
            ("warmup", member.assignment.warmup_tasks),
        )
    }
    places = {
        f"{topic}-{number}"
        for one in member.assignment.active_tasks
        for number in one.partitions
        for topic in sources.get(one.subtopology_id, ())
    }
    return {**_described_member(member, member.instance_id, places), "tasks": tasks}


def _described_member(member: ShareMember | StreamsMember, instance: str | None, places: Iterable[str]) -> Member:
    return {
        "member": member.member_id,
        "instance": instance,
        "client": member.client_id,
        "host": member.client_host,
        "partitions": sorted(places),
    }
