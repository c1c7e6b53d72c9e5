"""Clients: members of groups, producers, and where nodes' /metrics are given, connections and client telemetry."""

from __future__ import annotations

import re

from starlette.requests import Request

from ...admin.configs import Kind, describe_configs, list_config_resources
from ...admin.errors import RequestFailed
from ...client.error_kinds import ErrorKind
from ...client.explained_errors import from_library
from ...client.user_errors import UserError
from ..addresses import path_to
from ..backend import Backend
from ..cluster.groups import CoordinatorAway, described
from ..formats import number
from ..parts import Link, Page, Part, Table, Text

#: Groups whose members are listed, of those that are not empty.
_MOST_GROUPS = 50
_MOST_ROWS = 200
#: Families of Odradek's nodes: connections, and what clients push (KIP-714).
_CONNECTIONS, _PUSHED = (
    re.compile(r"connection"),
    re.compile(r"client_metrics|telemetry|^org_apache_kafka|^kafka_(?:consumer|producer)_"),
)


def clients(backend: Backend, request: Request) -> Page:
    parts: list[Part] = [*_members(backend), _subscriptions(backend)]
    metrics = backend.metrics.read()
    parts += [Text(reason, "bad") for reason in metrics.missing.values()]
    read = [(address, one) for address, samples in metrics.samples.items() for one in samples]
    if not backend.metrics:
        parts.append(
            Text("Connections and client telemetry: start the console with --metrics URL of each node's /metrics.")
        )
    for title, wanted in (("Connections", _CONNECTIONS), ("Client telemetry", _PUSHED)):
        rows = [(node, one.name, one.written, number(one.value)) for node, one in read if wanted.search(one.name)]
        if backend.metrics:
            parts.append(
                Table(
                    title,
                    ("Node", "Metric", "Labels", "Value"),
                    rows[:_MOST_ROWS],
                    "The nodes have no client telemetry.",
                    of=len(rows),
                )
            )
    return Page("Clients", parts, "/clients")


def _members(backend: Backend) -> list[Part]:
    rows, missing = [], []
    with_members = [one for one in backend.snapshot.groups if one.state not in ("Empty", "Dead")][:_MOST_GROUPS]
    with backend.links.admin() as admin:
        for group in with_members:
            try:
                found = described(admin, group.group, backend.away)
            except CoordinatorAway as error:
                missing.append(Text(str(error), "bad"))
                continue
            except Exception as error:
                known = error if isinstance(error, UserError) else from_library(error)
                if known is None or known.kind == ErrorKind.UNREACHABLE:
                    raise  # to wait for it once, not for each of its groups
                continue  # it ended between the poll and now
            link = Link(group.group, path_to("groups", group.group))
            rows += [(one.client, one.host, link, group.kind, len(one.held), one.member) for one in found.members]
    columns = ("Client id", "Host", "Group", "Kind", "Assigned", "Member")
    return [*missing, Table("Members of groups", columns, rows[:_MOST_ROWS], "No group has members.", of=len(rows))]


def _subscriptions(backend: Backend) -> Part:
    """The subscriptions of client metrics: the metrics that clients push (KIP-714)."""
    rows = []
    try:
        with backend.links.admin() as admin:
            for name in list_config_resources(admin, Kind.CLIENT_METRICS):
                values = describe_configs(admin, Kind.CLIENT_METRICS, name)
                rows += [(name, key, value.value) for key, value in sorted(values.items())]
    except RequestFailed as error:
        return Text(f"Subscriptions of client metrics: {error}")
    return Table("Subscriptions of client metrics", ("Subscription", "Key", "Value"), rows, "None.")
