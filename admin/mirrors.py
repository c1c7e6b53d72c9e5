"""Links to other clusters, and the topics that follow them (docs/development/mirror.md)."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..metadata.mirror_keys import (
    BOOTSTRAP,
    MIRROR_NAME,
    OF_MIRRORS,
    PRODUCER_ID_FLOOR,
    STATE,
    THROTTLE,
    is_made,
    link_key,
    split_key,
)
from ..replication.mirror.link import Link, LinkState, parse_link
from ..replication.mirror.made import MadeKind, read_marks
from ..replication.mirror.partition import STOPPED_STATES
from ..replication.mirror.progress import MirrorProgress, group_of, parse_progress
from ..replication.mirror.report import REPORT_PARTITION, REPORT_TOPIC, LinkReport, parse_report
from .config_changes import Operation, alter_configs, alter_topic_configs
from .configs import ALL_BROKERS, Kind, describe_configs, describe_topic_configs
from .errors import check
from .group_offsets import committed
from .topics import described_topics

if TYPE_CHECKING:
    from .places import Place
    from .session import Admin

#: Between two reads of progress while a command waits for it.
_POLL_S = 0.1
_SET, _DELETE = Operation.SET.name, Operation.DELETE.name
#: The config of a topic that names the link which it follows.
LINK_OF_TOPIC = MIRROR_NAME
_STOPPED = frozenset(state.value for state in STOPPED_STATES)


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """`source`: the addresses of the source's brokers; `wanted`: the state that an operator wants; `group`: that of its
    commits. `progress` may have topics that follow no more.
    """

    name: str
    source: str
    wanted: str
    group: str
    progress: Mapping[Place, MirrorProgress] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        return self.wanted == LinkState.ACTIVE.value

    @property
    def stopped(self) -> int:
        """The number of partitions that only an operator makes go on."""
        return sum(is_stopped(one) for one in self.progress.values())


def is_stopped(progress: MirrorProgress) -> bool:
    return progress.state in _STOPPED


def read_links(admin: Admin) -> dict[str, dict[str, str | None]]:
    """The properties of each link, by its name. Those that may be secrets are None."""
    found: dict[str, dict[str, str | None]] = {}
    for key, value in describe_configs(admin, Kind.BROKER, ALL_BROKERS).items():
        place = split_key(key)
        if place is not None and not is_made(place[1]):
            found.setdefault(place[0], {})[place[1]] = value.value
    return found


def create_link(admin: Admin, name: str, properties: Mapping[str, str], *, dry_run: bool) -> None:
    """Raises InvalidLink for properties that cannot be meant."""
    parse_link(name, properties)
    changes = {link_key(name, key): (_SET, value) for key, value in properties.items()}
    alter_configs(admin, "broker", ALL_BROKERS, changes, dry_run=dry_run)


def set_state(admin: Admin, name: str, state: LinkState, *, dry_run: bool) -> None:
    """Has all brokers follow, pause or stop."""
    alter_configs(admin, "broker", ALL_BROKERS, {link_key(name, STATE): (_SET, state.value)}, dry_run=dry_run)


def set_throttle(admin: Admin, name: str, bytes_per_second: int, *, dry_run: bool) -> None:
    """Limits what each broker fetches for a link; 0 for no limit."""
    alter_configs(
        admin, "broker", ALL_BROKERS, {link_key(name, THROTTLE): (_SET, str(bytes_per_second))}, dry_run=dry_run
    )


def delete_link(admin: Admin, name: str, *, dry_run: bool) -> None:
    """Deletes a link, which no topic may follow any more. What it has made stays."""
    prefix = link_key(name, "")
    known = describe_configs(admin, Kind.BROKER, ALL_BROKERS)
    changes = {key: (_DELETE, None) for key in known if key.startswith(prefix)}
    alter_configs(admin, "broker", ALL_BROKERS, changes, dry_run=dry_run)


def mirrored_topics(admin: Admin, name: str) -> list[str]:
    """The topics that follow a link."""
    every = [topic.name for topic in described_topics(admin, None) if not topic.is_internal]
    found = describe_topic_configs(admin, every, [MIRROR_NAME])
    return sorted(
        topic for topic, values in found.items() if MIRROR_NAME in values and values[MIRROR_NAME].value == name
    )


def compacted_topics(admin: Admin, topics: Sequence[str]) -> set[str]:
    """Those of the topics that are compacted."""
    found = describe_topic_configs(admin, topics, ["cleanup.policy"])
    return {topic for topic, values in found.items() if "compact" in (values["cleanup.policy"].value or "")}


def read_progress(admin: Admin, name: str, coordinator: int | None = None) -> dict[Place, MirrorProgress]:
    """The progress of each partition that a broker has reported."""
    found = {}
    for place, one in committed(admin, group_of(name), coordinator).items():
        try:
            found[place] = parse_progress(one.offset, one.metadata)
        except ValueError:
            continue  # committed by another program
    return found


def link_statuses(admin: Admin) -> list[LinkStatus]:
    """All links, without the progress of each, which `read_progress` reads."""
    return [
        LinkStatus(
            name,
            properties.get(BOOTSTRAP) or "",
            properties.get(STATE) or LinkState.ACTIVE.value,
            group_of(name),
        )
        for name, properties in sorted(read_links(admin).items())
    ]


def read_made(admin: Admin, name: str, kind: MadeKind) -> frozenset[str]:
    """The marks of what a link has made here."""
    configs = describe_configs(admin, Kind.BROKER, ALL_BROKERS)
    return read_marks({key: config.value for key, config in configs.items()}, name, kind)


def shown_link(name: str, properties: Mapping[str, str | None]) -> Link:
    """A link without the properties that are not shown: those of its client."""
    return parse_link(name, {key: value for key, value in properties.items() if value is not None})


def read_report(admin: Admin, name: str) -> LinkReport:
    """Why topics are not followed and groups not copied."""
    found = committed(admin, group_of(name)).get((REPORT_TOPIC, REPORT_PARTITION))
    try:
        return parse_report(found.metadata) if found is not None else LinkReport()
    except ValueError:
        return LinkReport()  # committed by another program


def wait_stopped(
    admin: Admin, name: str, topics: Collection[str], timeout_s: float, *, promoted: bool = False
) -> dict[Place, MirrorProgress]:
    """The last progress of all partitions of topics, after a link was stopped, or promoted.

    Those that no broker has reported within the time are left out: their leaders are down.
    """
    places = {
        (topic.name, one.partition_index)
        for topic in described_topics(admin, list(topics))
        for one in topic.partitions
    }  # fmt: skip
    deadline = time.monotonic() + timeout_s
    while True:
        found = {
            place: one
            for place, one in read_progress(admin, name).items()
            if place in places and (one.is_promoted if promoted else one.is_final)
        }
        if len(found) == len(places) or time.monotonic() > deadline:
            return found
        time.sleep(_POLL_S)


def open_topics(admin: Admin, topics: Sequence[str]) -> None:
    """Ends the following of topics: clients may write to them."""
    without = dict.fromkeys(OF_MIRRORS, (_DELETE, None))
    for result in alter_topic_configs(admin, dict.fromkeys(topics, without)):
        check(f"topic {result.resource_name}", result.error_code, result.error_message)


def raise_floor(admin: Admin, floor: int) -> None:
    """Raises the lowest producer id that is given; it never falls."""
    known = describe_configs(admin, Kind.BROKER, ALL_BROKERS).get(PRODUCER_ID_FLOOR)
    current = int(known.value) if known is not None and known.value and known.value.isdecimal() else 0
    if floor > current:
        changes = {PRODUCER_ID_FLOOR: (_SET, str(floor))}
        alter_configs(admin, "broker", ALL_BROKERS, changes, dry_run=False)
