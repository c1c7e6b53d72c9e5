"""The first page of a console of several clusters: the state of each."""

from __future__ import annotations

from collections.abc import Mapping

from ...client.wording import counted
from ..backend import Backend
from ..formats import NONE, number
from ..parts import Badge, Link, Page, Table

_COLUMNS = (
    "Cluster", "State", "Cluster id", "Brokers", "Topics", "Under-replicated", "Without leader", "Records/s", "Lag",
)  # fmt: skip


def overview_of(clusters: Mapping[str, Backend]) -> Page:
    rows = []
    for name, backend in clusters.items():
        found = backend.snapshot
        is_read = found.is_filled
        rows.append(
            (
                Link(name, f"/clusters/{name}/"),
                _state(backend),
                found.cluster_id or NONE,
                number(len(found.brokers)) if is_read else None,
                number(sum(not one.internal for one in found.topics)) if is_read else None,
                Badge(str(found.under_replicated), "warn" if found.under_replicated else "good") if is_read else NONE,
                Badge(str(found.without_leader), "bad" if found.without_leader else "good") if is_read else NONE,
                number(found.records_per_s),
                number(found.lag),
            )
        )
    return Page("Clusters", [Table("Clusters", _COLUMNS, rows)], "/", live="/")


def _state(backend: Backend) -> Badge:
    found = backend.snapshot
    if backend.trouble:
        return Badge(backend.trouble, "bad")
    if not found.is_filled:
        return Badge("reading")
    away = sum(one.fenced or one.silent for one in found.brokers)
    return Badge(f"{counted(away, 'broker')} away", "bad") if away else Badge("running", "good")
