"""Bugs that are put into the brokers of a simulation, and the anomalies each of which shows them.

They are those of `compat_tests/histories`; the process of a seed that has one puts it in before its first broker.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import NamedTuple

from compat_tests.histories.injected import sitecustomize
from tests.simulated.plan import CHAIN, COORDINATORS, GROUPS, SHARE, TRANSACTIONS


class Bug(NamedTuple):
    """Each of `found_as` shows the bug. `faults`, `workloads`: those that bring it out; a seed's own by default."""

    found_as: Collection[str]
    faults: Sequence[str] = ()
    workloads: Sequence[str] = ()


_MEMBERS = (TRANSACTIONS, GROUPS, COORDINATORS)
_CUTS = ("isolate", "cut pair", "kill")
#: By the names of `sitecustomize.BUGS`.
BUGS = {
    "acknowledge-before-isr": Bug({"lost-write", "inconsistent-offsets", "unseen"}, _CUTS, _MEMBERS),
    "drop-a-marker": Bug({"G1a", "lost-write"}, ("reset",), (TRANSACTIONS,)),
    "reuse-an-offset": Bug({"inconsistent-offsets"}, _CUTS, _MEMBERS),
    "accept-fenced-commits": Bug({"fenced-commit"}, ("reset",), (COORDINATORS,)),
    "commit-aborted-offsets": Bug({"chain-lost"}, ("kill", "reset"), (CHAIN,)),
    "release-accepted-records": Bug({"share-accepted-again"}, (), (SHARE,)),
}


def environment_of(bug: str) -> dict[str, str]:
    return {sitecustomize.VARIABLE: bug}


def inject() -> None:
    """Puts the bug into this process that its environment names."""
    name = os.environ.get(sitecustomize.VARIABLE)
    if name:
        sitecustomize.BUGS[name]()
