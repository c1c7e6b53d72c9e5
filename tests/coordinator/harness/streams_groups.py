"""Assignments of streams groups in a readable form."""

from __future__ import annotations

from typing import Any


def tasks(structures: Any) -> dict[str, list[int]] | None:
    return None if structures is None else {one.subtopology_id: one.partitions for one in structures}
