"""`odradek tier`: the segments of topics in the remote store, by the metadata of a running cluster.

The commands list what topics have in the store, and check and repair the store and the metadata.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ..admin.connection import Connection
from ..admin.log_offsets import offsets_at
from ..admin.topics import described_topics
from ..client.user_errors import UserError
from ..client.wording import counted
from ..protocol.log_places import EARLIEST, EARLIEST_LOCAL, LATEST
from ..protocol.uuids import uuid_to_text
from ..tiers.segment_metadata import COPY_SEGMENT_FINISHED
from ..tiers.store import RemoteStorageError
from .client.options import DryRun, Yes, client_command, new_app
from .client.value_completion import complete_topic
from .messages import FAILED, warn
from .output import Output, Table
from .tier_check import TierFinding, checked, findings_of, open_store, segments_of, summarize, warn_of_damage
from .tier_metadata import RemoteMetadata
from .tier_metadata_repair import repair_metadata

if TYPE_CHECKING:
    from ..admin.session import Admin

app = new_app("Show what topics have in the remote store, and check and repair the store.")

Config = Annotated[
    Path,
    typer.Option(
        "--config", metavar="FILE", help="a broker's server.properties, which names the store and has its settings"
    ),
]


class Row(NamedTuple):
    """A partition. `stored_to` is the offset after the last one in the store; None where nothing is there."""

    topic: str
    partition: int
    start: int | None
    local_start: int | None
    stored_to: int | None
    end: int | None
    not_stored: int | None
    segments: int
    bytes: int
    unfinished: int


@app.command("list")
@client_command
def list_partitions(
    connection: Connection,
    output: Output,
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", autocompletion=complete_topic)] = None,
) -> None:
    """List tiered partitions: where each begins and ends, on the disk and in the store, and how much is not stored yet."""
    metadata = RemoteMetadata(connection)
    metadata.read()
    with connection.admin() as admin:
        found = list(_rows(admin, metadata, topics or None))
    output.show(
        [one._asdict() for one in found],
        Table("", [name.upper().replace("_", " ") for name in Row._fields], found),
    )
    warn_of_damage(metadata)


def _rows(admin: Admin, metadata: RemoteMetadata, names: list[str] | None) -> Iterator[Row]:
    caches = metadata.caches()
    topics = {one.name: one for one in described_topics(admin, names)}
    tiered = [one for one in caches if one.topic in topics and topics[one.topic].id_in_requests == one.topic_id]
    places = [
        (name, partition.partition_index)
        for name in sorted(set(names or ()) | {one.topic for one in tiered})
        for partition in topics[name].partitions
        if partition.leader_id >= 0
    ]
    starts, local_starts, ends = (offsets_at(admin, places, at) for at in (EARLIEST, EARLIEST_LOCAL, LATEST))
    of_place = {(one.topic, one.partition): caches[one] for one in tiered}
    for place in sorted({*places, *of_place}):
        segments = of_place[place].segments() if place in of_place else []
        copied = [one for one in segments if one.state is COPY_SEGMENT_FINISHED]
        stored_to = max((one.end_offset + 1 for one in copied), default=None)
        end = ends.get(place)
        yield Row(
            *place,
            start=starts.get(place),
            local_start=local_starts.get(place),
            stored_to=stored_to,
            end=end,
            not_stored=None if end is None else max(0, end - (stored_to or starts.get(place) or 0)),
            segments=len(copied),
            bytes=sum(one.size_bytes for one in copied),
            unfinished=len(segments) - len(copied),
        )


@app.command()
@client_command
def check(connection: Connection, output: Output, config: Config) -> None:
    """Check the store against the metadata: objects that no segment has, missing parts, and wrong sizes. Exit status 1 if
    something is found.
    """
    with open_store(config) as store:
        metadata = RemoteMetadata(connection)
        found = checked(connection, metadata, store)
    findings = list(findings_of(found))
    output.show(
        [one._asdict() for one in findings],
        Table("", [name.upper() for name in TierFinding._fields], findings),
    )
    summarize(found)
    warn_of_damage(metadata)
    if findings or metadata.damaged():
        raise typer.Exit(FAILED)


@app.command()
@client_command
def repair(connection: Connection, output: Output, config: Config, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete objects of the store that no segment has, and those of deleted topics, and records of the metadata that cannot
    be read. Missing parts cannot be repaired.
    """
    with open_store(config) as store:
        metadata = RemoteMetadata(connection)
        found = checked(connection, metadata, store)
        damaged = metadata.damaged()
        doomed = segments_of(found.report.orphans) | {one.segment_id: one for one in found.abandoned}
        if doomed and not dry_run and not yes and sys.stdin.isatty():
            typer.confirm(
                f"Delete the objects of {counted(len(doomed), 'segment')} from the store?", abort=True, err=True
            )
        if damaged and not dry_run:
            repair_metadata(connection, metadata)
        for one in doomed.values() if not dry_run else ():
            try:
                store.delete_log_segment_data(one)
            except RemoteStorageError as error:
                raise UserError(f"{one.partition}: {error}") from None
    names = [f"{one.partition} {one.start_offset} {uuid_to_text(one.segment_id)}" for one in doomed.values()]
    output.changed("deleted", [*names, *damaged], dry_run=dry_run)
    if found.report.wrong_parts:
        warn(f"{len(found.report.wrong_parts)} parts are missing or have wrong sizes: `odradek tier check` lists them")
