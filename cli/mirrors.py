"""`odradek mirror`: topics that follow another cluster, offset for offset, and the change to them."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..admin import copied_access, mirrors
from ..admin.access_comparison import access_differences
from ..admin.connection import Connection
from ..admin.made_access import words_of_rule
from ..admin.mirror_change import ChangeFailed, MirrorChange
from ..admin.mirror_comparison import compare
from ..admin.mirror_reversal import NotReversible, reverse
from ..admin.nodes import describe_cluster
from ..admin.topics import described_topics
from ..client.error_kinds import ErrorKind
from ..client.properties import pairs, read_client_properties
from ..client.user_errors import Misused, UserError
from ..client.wording import counted
from ..metadata.mirror_keys import (
    ACLS,
    BOOTSTRAP,
    CUTS_DIVERGED,
    GROUPS,
    LINGER,
    PREFIX,
    QUOTAS,
    REPLICATION_FACTOR,
    SHARE_GROUPS,
    STATE,
    THROTTLE,
    TOPICS,
)
from ..replication.mirror.change import FAIL_OVER, SWITCH, Effect
from ..replication.mirror.link import LINGER_MS, InvalidLink, LinkState, parse_link
from .client.options import DryRun, Yes, client_command, new_app
from .link_file import read_link_file
from .output import Output, Table

if TYPE_CHECKING:
    from ..admin.mirror_comparison import Comparison
    from ..admin.places import Place
    from ..admin.session import Admin
    from ..replication.mirror.link import Link
    from ..replication.mirror.progress import MirrorProgress

app = new_app("Mirror topics of another cluster at the same offsets; switch to the mirror, or fail over to it.")


Name = Annotated[str, typer.Argument(metavar="NAME", help="name of the link")]
SourceConfig = Annotated[
    Path | None,
    typer.Option("--from-config", metavar="FILE", help="file of client properties for the source: TLS, SASL"),
]

Linger = Annotated[
    int | None,
    typer.Option(
        "--linger",
        metavar="MS",
        help=f"milliseconds in which records gather between two fetches, 0 for none (default: {LINGER_MS})",
    ),
]

SourceSetting = Annotated[
    list[str] | None, typer.Option("--from-setting", metavar="KEY=VALUE", help="a client property for the source")
]


@app.command()
@client_command
def create(
    name: Name,
    connection: Connection,
    output: Output,
    source: Annotated[str, typer.Option("--from", metavar="HOST:PORT", help="brokers of the source")] = "",
    topics: Annotated[
        str, typer.Option("--topics", metavar="REGEX", help="topics to follow, by their whole names")
    ] = "",
    group_pattern: Annotated[
        str, typer.Option("--groups", metavar="REGEX", help="groups whose committed offsets are copied")
    ] = "",
    from_config: SourceConfig = None,
    source_setting: SourceSetting = None,
    prefix: Annotated[str, typer.Option("--prefix", help="in front of the names of topics and groups here")] = "",
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", help="replicas of the topics here (default: the brokers' default)")
    ] = -1,
    cut_diverged: Annotated[
        bool,
        typer.Option(
            "--cut-diverged",
            help="where the source has lost records, cut them off here and keep them as files; else stop",
        ),
    ] = False,
    throttle: Annotated[
        int, typer.Option("--throttle", metavar="BYTES", help="bytes per second that each broker fetches (0: no limit)")
    ] = 0,
    linger: Linger = None,
    acls: Annotated[bool, typer.Option("--acls", help="follow rules about followed topics and groups")] = False,
    quotas: Annotated[bool, typer.Option("--quotas", help="follow quotas of users, client ids and addresses")] = False,
    share_groups: Annotated[
        bool, typer.Option("--share-groups", help="follow start offsets of share groups that --groups matches")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="these options in YAML, and client: with the source's properties"),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Follow topics of another cluster. New topics and groups that match are followed, too."""
    properties = read_link_file(file) if file is not None else {}
    properties |= read_client_properties(from_config) if from_config is not None else {}
    properties |= pairs(source_setting or [], "--from-setting")
    options = {BOOTSTRAP: source, TOPICS: topics, GROUPS: group_pattern, PREFIX: prefix}
    options[REPLICATION_FACTOR] = str(replication_factor) if replication_factor != -1 else ""
    options[THROTTLE] = str(throttle) if throttle else ""
    options[LINGER] = str(linger) if linger is not None else ""
    flags = {CUTS_DIVERGED: cut_diverged, ACLS: acls, QUOTAS: quotas, SHARE_GROUPS: share_groups}
    options |= {key: "true" for key, is_set in flags.items() if is_set}
    properties |= {key: value for key, value in options.items() if value} | {STATE: LinkState.ACTIVE.value}
    try:
        link = parse_link(name, properties)
    except InvalidLink as error:
        raise Misused(str(error)) from None
    with connection.admin() as admin:
        if name in mirrors.read_links(admin):
            raise UserError(f"link {name} exists: delete it first, or take another name")
        # Raises UserError for a source that this machine cannot log in to.
        with Connection(
            {**link.client, "bootstrap.servers": properties[BOOTSTRAP]}, connection.timeout_s
        ).admin() as there:
            if describe_cluster(there).cluster_id == describe_cluster(admin).cluster_id:
                raise UserError("the source is this cluster itself: a circle")
        mirrors.create_link(admin, name, properties, dry_run=dry_run)
    output.changed("created", [name], dry_run=dry_run)


def _existing(admin: Admin, name: str) -> dict[str, str | None]:
    """The properties of a link. Raises UserError where there is none of the name."""
    links = mirrors.read_links(admin)
    if name not in links:
        known = f"there is {', '.join(sorted(links))}" if links else "`odradek mirror create` makes one"
        raise UserError(f"link {name} does not exist: {known}", ErrorKind.NOT_FOUND)
    return links[name]


@app.command("list")
@client_command
def list_links(connection: Connection, output: Output) -> None:
    """List links."""
    with connection.admin() as admin:
        links = mirrors.read_links(admin)
    keys = (BOOTSTRAP, TOPICS, GROUPS, PREFIX, STATE)
    found = [{"name": name} | {key: properties.get(key) or "" for key in keys} for name, properties in links.items()]
    rows = [list(one.values()) for one in found]
    output.show(found, Table("", ("NAME", "SOURCE", "TOPICS", "GROUPS", "PREFIX", "STATE"), rows))


@app.command()
@client_command
def status(name: Name, connection: Connection, output: Output) -> None:
    """Show how far each partition is. Exits with 1 where one has stopped."""
    with connection.admin() as admin:
        _existing(admin, name)
        topics = mirrors.mirrored_topics(admin, name)
        progress = {place: one for place, one in mirrors.read_progress(admin, name).items() if place[0] in topics}
        report = mirrors.read_report(admin, name)
    now_ms = int(time.time() * 1000)
    found = [_shown(place, one, now_ms) for place, one in sorted(progress.items())]
    rows = [list(one.values()) for one in found]
    columns = ("TOPIC", "PARTITION", "STATE", "OFFSET", "SOURCE END", "LAG", "BEHIND S", "REASON")
    output.show(found, Table("", columns, rows))
    for line in report.lines():
        typer.echo(line, err=True)
    stopped = sum(map(mirrors.is_stopped, progress.values()))
    if stopped:
        raise UserError(f"stopped: {stopped} of {counted(len(found), 'partition')}; the table has the reasons")


def _shown(place: Place, progress: MirrorProgress, now_ms: int) -> dict[str, object]:
    return {
        "topic": place[0],
        "partition": place[1],
        "state": progress.state,
        "offset": progress.offset,
        "source_end": progress.source_end if progress.source_end >= 0 else None,
        "lag": progress.lag,
        "behind_s": progress.behind_s(now_ms),
        "reason": progress.reason,
    }


@app.command()
@client_command
def pause(name: Name, connection: Connection, output: Output, dry_run: DryRun = False) -> None:
    """Fetch nothing until `resume`. The topics stay read-only."""
    with connection.admin() as admin:
        _existing(admin, name)
        mirrors.set_state(admin, name, LinkState.PAUSED, dry_run=dry_run)
    output.changed("paused", [name], dry_run=dry_run)


@app.command()
@client_command
def resume(name: Name, connection: Connection, output: Output, dry_run: DryRun = False) -> None:
    """Follow again after `pause`."""
    with connection.admin() as admin:
        if _existing(admin, name).get(STATE) == LinkState.PROMOTED.value:
            raise UserError(f"link {name} was on its way to a fail-over: complete it with `odradek mirror fail-over`")
        mirrors.set_state(admin, name, LinkState.ACTIVE, dry_run=dry_run)
    output.changed("resumed", [name], dry_run=dry_run)


@app.command("throttle")
@client_command
def set_throttle(
    name: Name,
    rate: Annotated[
        int, typer.Argument(metavar="BYTES", help="bytes per second that each broker fetches; 0 for no limit")
    ],
    connection: Connection,
    output: Output,
    dry_run: DryRun = False,
) -> None:
    """Limit what each broker fetches of the source."""
    if rate < 0:
        raise Misused("a rate is a number of bytes per second, or 0 for no limit")
    with connection.admin() as admin:
        _existing(admin, name)
        mirrors.set_throttle(admin, name, rate, dry_run=dry_run)
    output.changed("throttled", [name], dry_run=dry_run)


@app.command()
@client_command
def delete(name: Name, connection: Connection, output: Output, dry_run: DryRun = False) -> None:
    """Delete a link that no topic follows any more."""
    with connection.admin() as admin:
        _existing(admin, name)
        topics = mirrors.mirrored_topics(admin, name)
        if topics:
            raise UserError(
                f"link {name} still has {counted(len(topics), 'topic')}: make them writable with "
                f"`odradek mirror switch {name}` or `odradek mirror fail-over {name}`, or delete them"
            )
        mirrors.delete_link(admin, name, dry_run=dry_run)
    output.changed("deleted", [name], dry_run=dry_run)


@app.command()
@client_command
def verify(
    name: Name,
    connection: Connection,
    output: Output,
    topic: Annotated[list[str] | None, typer.Option("--topic", help="topics to compare, by their names here")] = None,
    samples: Annotated[int, typer.Option("--samples", help="ranges of 1 MB that are compared in each partition")] = 8,
    whole: Annotated[bool, typer.Option("--whole", help="compare everything")] = False,
    from_config: SourceConfig = None,
    source_setting: SourceSetting = None,
) -> None:
    """Compare the CRCs of batches, and followed rules and quotas, with the source. Exits with 1 where they differ."""
    if samples < 1:
        raise Misused("--samples is at least 1")
    with connection.admin() as admin:
        properties = _existing(admin, name)
        topics = mirrors.mirrored_topics(admin, name)
        unknown = sorted(set(topic or ()) - set(topics))
        if unknown:
            raise UserError(f"{', '.join(unknown)} does not follow link {name}", ErrorKind.NOT_FOUND)
        link = mirrors.shown_link(name, properties)
        places = {
            (one.name, partition.partition_index): (link.name_there(one.name), partition.partition_index)
            for one in described_topics(admin, topic or topics)
            for partition in one.partitions
        }
        compacted = mirrors.compacted_topics(admin, topic or topics)
        with _source(properties, from_config, source_setting, connection).admin() as source:
            found = [
                _compared(place, comparison)
                for place, comparison in compare(admin, source, places, compacted, None if whole else samples)
            ]
            of_access = access_differences(admin, source, link) if not topic else []
    rows = [list(one.values()) for one in found]
    columns = ("TOPIC", "PARTITION", "FROM", "TO", "BATCHES", "BYTES", "DIFFERENCES", "FIRST DIFFERENCE")
    output.show(found, Table("", columns, rows))
    for line in of_access:
        typer.echo(line, err=True)
    different = sum(1 for one in found if one["differences"])
    words = [f"{counted(different, 'partition')} differ from the source"] if different else []
    words += [f"{counted(len(of_access), 'difference')} of rules and quotas"] if of_access else []
    if words:
        raise UserError(" and ".join(words))


@app.command("copy")
@client_command
def copy_access(
    name: Name,
    connection: Connection,
    output: Output,
    acls: Annotated[bool, typer.Option("--acls", help="rules about followed topics and groups")] = False,
    quotas: Annotated[bool, typer.Option("--quotas", help="quotas of users, client ids and addresses")] = False,
    share_groups: Annotated[
        bool, typer.Option("--share-groups", help="start offsets of followed share groups without members here")
    ] = False,
    from_config: SourceConfig = None,
    source_setting: SourceSetting = None,
    dry_run: DryRun = False,
) -> None:
    """Copy what a link does not follow by itself. Nothing is deleted here. SCRAM users to bring are named."""
    copied: list[str] = []
    skipped: dict[str, str] = {}
    with connection.admin() as admin:
        properties = _existing(admin, name)
        link = mirrors.shown_link(name, properties)
        with _source(properties, from_config, source_setting, connection).admin() as source:
            if acls:
                copied += [
                    words_of_rule(rule) for rule in copied_access.copy_acls(admin, source, link, dry_run=dry_run)
                ]
            if quotas:
                copied += copied_access.copy_quotas(admin, source, dry_run=dry_run)
            if share_groups:
                groups = copied_access.copy_share_groups(admin, source, link, skipped, dry_run=dry_run)
                copied += [f"share group {group}: {counted(count, 'partition')}" for group, count in groups.items()]
            users = copied_access.missing_users(admin, source)
    output.changed("copied", copied, dry_run=dry_run)
    for group, reason in sorted(skipped.items()):
        typer.echo(f"offsets of share group {group} are not copied: {reason}", err=True)
    if users:
        typer.echo(f"SCRAM credentials cannot be read from a cluster; create these here: {', '.join(users)}", err=True)


def _compared(place: Place, comparison: Comparison) -> dict[str, object]:
    return {
        "topic": place[0],
        "partition": place[1],
        "first": comparison.first,
        "end": comparison.end,
        "batches": comparison.batches,
        "bytes": comparison.size,
        "differences": comparison.differences,
        "first_difference": comparison.described[0] if comparison.described else "",
    }


def _source(
    properties: Mapping[str, str | None],
    from_config: Path | None,
    settings: list[str] | None,
    connection: Connection,
) -> Connection:
    """The connection to a link's source: the properties of its client are shown by no cluster, so they are given again."""
    own = read_client_properties(from_config) if from_config is not None else {}
    own |= pairs(settings or [], "--from-setting") | {"bootstrap.servers": properties[BOOTSTRAP] or ""}
    return Connection(own, connection.timeout_s)


# The change to the mirror.


@app.command("fail-over")
@client_command
def fail_over(name: Name, connection: Connection, output: Output, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Make the topics writable here at the offsets that they have: the source is lost.

    A source that still runs takes records that this cluster will never have.
    """
    if not yes and not dry_run:
        _confirm(
            f"Records that only the source of {name} has are lost, and a source that still runs takes more of them. "
            "Make the topics writable here?"
        )
    with connection.admin() as admin:
        link = mirrors.shown_link(name, _existing(admin, name))
        topics = mirrors.mirrored_topics(admin, name)
        change = MirrorChange(admin, None, link, topics, connection.timeout_s, _say)
        _changed(change, FAIL_OVER, admin, link, dry_run=dry_run)
    _show_last(output, topics, change.last)


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise Misused("this cannot be undone: confirm it with --yes")
    typer.confirm(question, abort=True, err=True)


def _show_last(output: Output, topics: Iterable[str], last: Mapping[Place, MirrorProgress]) -> None:
    """Shows for each topic what it has, and when it last had all of the source."""
    by_topic: dict[str, list[MirrorProgress]] = defaultdict(list)
    for (topic, _), one in last.items():
        by_topic[topic].append(one)
    found: list[dict[str, object]] = []
    for topic in topics:
        parts = by_topic[topic]
        whole = min((one.caught_up_ms for one in parts), default=-1)
        found.append(
            {
                "topic": topic,
                "partitions": len(parts),
                "offsets": sum(one.offset for one in parts),
                "known_lag": sum(one.lag or 0 for one in parts),
                "whole_until": _time(whole),
            }
        )
    rows = [list(one.values()) for one in found]
    output.show(found, Table("", ("TOPIC", "PARTITIONS", "OFFSETS", "KNOWN LAG", "WHOLE UNTIL"), rows))


def _time(at_ms: int) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000)) if at_ms >= 0 else None


@app.command()
@client_command
def switch(
    name: Name,
    connection: Connection,
    output: Output,
    from_config: SourceConfig = None,
    source_setting: SourceSetting = None,
    producers_stopped: Annotated[
        bool, typer.Option("--producers-stopped", help="the source cannot refuse producers, and none writes any more")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Make the topics writable here when they have all of the source, which is made read-only first."""
    with connection.admin() as admin:
        properties = _existing(admin, name)
        topics = mirrors.mirrored_topics(admin, name)
        if not yes and not dry_run:
            _confirm(f"Make {counted(len(topics), 'topic')} read-only at the source of {name}, and writable here?")
        link = mirrors.shown_link(name, properties)
        with _source(properties, from_config, source_setting, connection).admin() as source:
            change = MirrorChange(admin, source, link, topics, connection.timeout_s, _say)
            change.producers_stopped = producers_stopped
            _changed(change, SWITCH, admin, link, dry_run=dry_run)
    _show_last(output, topics, change.last)


def _changed(change: MirrorChange, effects: Sequence[Effect], admin: Admin, link: Link, *, dry_run: bool) -> None:
    """Does a change. A dry run only reads the progress."""
    if dry_run:
        topics = mirrors.mirrored_topics(admin, link.name)
        progress = mirrors.read_progress(admin, link.name)
        change.last = {place: one for place, one in progress.items() if place[0] in topics}
        return
    try:
        change.run(effects)
    except ChangeFailed as error:
        raise UserError(str(error)) from None


def _say(words: str) -> None:
    typer.echo(words, err=True)


@app.command("reverse")
@client_command
def reverse_link(
    name: Name,
    connection: Connection,
    output: Output,
    back: Annotated[str, typer.Option("--as", metavar="LINK", help="name of the new link (default: NAME-back)")] = "",
    here: Annotated[
        str,
        typer.Option("--to", metavar="HOST:PORT", help="brokers of this cluster, as the former source reaches them"),
    ] = "",
    from_config: SourceConfig = None,
    source_setting: SourceSetting = None,
    back_config: Annotated[
        Path | None,
        typer.Option(
            "--back-config", metavar="FILE", help="client properties with which the former source logs in here"
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Have the former source follow this cluster, after a switch or a fail-over to it.

    Records that only the former source has are cut off there and kept as files. `switch` of the new link leads back.
    """
    with connection.admin() as admin:
        properties = _existing(admin, name)
        link = mirrors.shown_link(name, properties)
        if not yes and not dry_run:
            _confirm(f"Cut off what only the former source of {name} has, and have it follow this cluster?")
        client = read_client_properties(back_config) if back_config is not None else {}
        client |= {BOOTSTRAP: here or connection.bootstrap}
        with _source(properties, from_config, source_setting, connection).admin() as source:
            try:
                topics = reverse(admin, source, link, back or f"{name}-back", client, dry_run=dry_run)
            except NotReversible as error:
                raise UserError(str(error)) from None
    output.changed("reversed", topics, dry_run=dry_run)
