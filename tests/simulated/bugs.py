"""Bugs that are put into the brokers of a simulation, and the anomalies each of which shows them.

They are those of `compat_tests/histories`; the process of a seed that has one puts it in before its first broker.
"""

from __future__ import annotations

import os

from compat_tests.histories.injected import sitecustomize

#: A name of `sitecustomize.BUGS` -> what shows it.
BUGS = {
    "acknowledge-before-isr": frozenset({"lost-write", "inconsistent-offsets", "unseen"}),
    "drop-a-marker": frozenset({"G1a", "lost-write"}),
    "reuse-an-offset": frozenset({"inconsistent-offsets"}),
    "accept-fenced-commits": frozenset({"fenced-commit"}),
}


def environment_of(bug: str) -> dict[str, str]:
    return {sitecustomize.VARIABLE: bug}


def inject() -> None:
    """Puts the bug into this process that its environment names."""
    name = os.environ.get(sitecustomize.VARIABLE)
    if name:
        sitecustomize.BUGS[name]()
