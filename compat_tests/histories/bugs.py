"""Bugs that tests put into the brokers of a round, the round that brings each one out, and the anomalies that show it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .rounds import Plan

_FOLDER = Path(__file__).resolve().parent / "injected"
_VARIABLE = "ODRADEK_HISTORIES_BUG"


@dataclass(frozen=True)
class Bug:
    plan: Plan
    #: Each of these shows the bug.
    found_as: frozenset[str]


def environment_of(bug: str) -> dict[str, str]:
    """Returns the variables of a process that has the bug."""
    path = os.pathsep.join([str(_FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {_VARIABLE: bug, "PYTHONPATH": path}


def _plan(bug: str, seconds: float, names: tuple[str, ...], *workloads: str) -> Plan:
    # A cut lasts longer than a broker's session, so that another leader is elected.
    return Plan(
        seconds=seconds,
        names=names,
        workloads=workloads,
        environment=environment_of(bug),
        lasts_s=(12.0, 12.0),
        settle_s=30.0,
    )


BUGS = {
    "acknowledge-before-isr": Bug(
        _plan("acknowledge-before-isr", 40, ("cut",), "queue"), frozenset({"lost-write", "inconsistent-offsets"})
    ),
    "drop-a-marker": Bug(_plan("drop-a-marker", 40, (), "append", "aborts"), frozenset({"G1a", "lost-write"})),
    "reuse-an-offset": Bug(_plan("reuse-an-offset", 40, ("cut",), "queue"), frozenset({"inconsistent-offsets"})),
    "accept-fenced-commits": Bug(_plan("accept-fenced-commits", 40, (), "groups"), frozenset({"fenced-commit"})),
}
