"""`odradek backup PLACE` and `odradek restore PLACE`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ...admin.connection import Connection
from ...client.error_kinds import ErrorKind
from ...client.user_errors import Misused, UserError
from ..client.options import DryRun, client_command, new_app
from ..messages import warn
from ..output import Output, Table
from ..progress import Progress
from .chunks import checked
from .manifests import Manifest, Topic, numbers, read_manifest
from .stores import Store, open_store

if TYPE_CHECKING:
    from .restoring import Restored

app = new_app("Back up topics, group offsets and cluster settings to a folder or an object store.")
restore_app = new_app("Restore a backup to a cluster.")

Place = Annotated[str, typer.Argument(metavar="PLACE", help="a folder, or a URL such as s3://bucket/prefix")]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--store-option", metavar="KEY=VALUE", help="an option of the fsspec file system, such as endpoint_url=..."
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="REGEX", help="only topics whose name matches; may be repeated"),
]
Number = Annotated[
    int | None, typer.Option("--number", "-n", metavar="N", help="number of the backup (default: the newest)")
]


def _store(place: str, options: list[str] | None) -> Store:
    pairs = [option.partition("=") for option in options or ()]
    if not all(equals for _, equals, _ in pairs):
        raise Misused("--store-option takes KEY=VALUE")
    return open_store(place, {key: value for key, _, value in pairs})


def _patterns(given: list[str] | None) -> list[str]:
    for one in given or ():
        try:
            re.compile(one)
        except re.error as error:
            raise Misused(f"{one!r} is not a regular expression: {error}") from None
    return given or []


@app.command()
@client_command
def backup(
    place: Place,
    connection: Connection,
    output: Output,
    topic: Topics = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="REGEX", help="only groups whose id matches")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="read all records, also those in earlier backups")] = False,
    list_: Annotated[bool, typer.Option("--list", help="list the backups")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="verify the checksums of a backup")] = False,
    number: Number = None,
    store_option: StoreOptions = None,
) -> None:
    """Back up topics, group offsets and cluster settings. Records in an earlier backup are not read again."""
    store = _store(place, store_option)
    if list_ or verify:
        shown = [read_manifest(store, number) for number in (numbers(store) if list_ else [number])]
        for manifest in shown if verify else ():
            _verify(store, manifest.topics)
        _show(output, shown)
        return
    from .taking import Taking

    with store.only_one(), Progress("records", None) as progress:
        taking = Taking(connection, store, _patterns(topic), _patterns(group), full=full)
        made = taking.take(progress.advance)
    for line in taking.warnings:
        warn(line)
    _show(output, [made], new_records=taking.new_records, new_bytes=taking.new_bytes)


def _verify(store: Store, topics: Sequence[Topic]) -> None:
    chunks = [chunk for topic in topics for part in topic.parts for chunk in part.chunks]
    with Progress("chunks", len(chunks)) as progress:
        for chunk in chunks:
            checked(store, chunk)
            progress.advance()


def _show(output: Output, shown: list[Manifest], **more: int) -> None:
    found = [
        {
            "number": one.number,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.time_ms / 1000)),
            "cluster_id": one.cluster_id,
            "topics": len(one.topics),
            "partitions": sum(len(topic.parts) for topic in one.topics),
            "groups": len(one.groups) + len(one.share_groups),
            "settings": sum(one.settings.counts().values()),
            "records": sum(part.records for topic in one.topics for part in topic.parts),
            "bytes": sum(chunk.bytes for topic in one.topics for part in topic.parts for chunk in part.chunks),
            **more,
        }
        for one in shown
    ]
    columns = [name.upper().replace("_", " ") for name in (found[0] if found else ())]
    output.show(found, Table("", columns, [list(one.values()) for one in found]))


@restore_app.command()
@client_command
def restore(
    place: Place,
    connection: Connection,
    output: Output,
    topic: Topics = None,
    number: Number = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", min=1, help="replicas of each partition (default: as in the backup)"),
    ] = None,
    renumber: Annotated[
        bool, typer.Option("--renumber", help="do not fill gaps between offsets: such partitions begin at offset 0")
    ] = False,
    no_groups: Annotated[bool, typer.Option("--no-groups", help="do not restore group offsets")] = False,
    settings: Annotated[
        bool | None,
        typer.Option(
            "--settings/--no-settings",
            help="restore ACLs, quotas and dynamic configs of the cluster (default: only without --topic)",
            show_default=False,
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify/--no-verify",
            help="read all chunks before the first write; without it, damage ends a begun restore",
        ),
    ] = True,
    dry_run: DryRun = False,
    store_option: StoreOptions = None,
) -> None:
    """Restore the topics of a backup with their records and configs, the group offsets and the cluster settings."""
    from .restoring import Restored, RestoreOptions, Restoring

    store = _store(place, store_option)
    manifest = read_manifest(store, number)
    options = RestoreOptions(
        topics=_patterns(topic),
        replication_factor=replication_factor,
        with_groups=not no_groups,
        with_settings=not topic if settings is None else settings,
        renumber=renumber,
    )
    restoring = Restoring(connection, store, manifest, options)
    if not restoring.topics:
        raise UserError(f"backup {manifest.number} has no topic that matches", ErrorKind.NOT_FOUND)
    if verify:
        _verify(store, restoring.topics)
    if dry_run:
        restoring.check()
        done = [
            Restored(topic.name, part.partition, part.records, restoring.keeps_offsets(part))
            for topic in restoring.topics
            for part in topic.parts
        ]
    else:
        with store.only_one(), Progress("records", sum(p.records for t in restoring.topics for p in t.parts)) as bar:
            done = restoring.restore(bar.advance)
    for line in restoring.warnings:
        warn(line)
    _show_restored(output, done, dry_run=dry_run)


def _show_restored(output: Output, done: Sequence[Restored], *, dry_run: bool) -> None:
    found = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "records": one.records,
            "offsets": "kept" if one.kept else "from 0",
            "dry_run": dry_run,
        }
        for one in done
    ]
    columns = ("TOPIC", "PARTITION", "RECORDS", "OFFSETS")
    output.show(found, Table("", columns, [list(one.values())[:4] for one in found]))
