"""Share groups that read transactions, under each `share.isolation.level` (KIP-932)."""

from __future__ import annotations

from ..scenario import Scenario, Step, scenario
from ..setup_steps import produced
from .share_fetches import ACCEPT, GAP, REJECT, RELEASE, configured, fetch, first, say
from .share_states import begun, read, setup_steps
from .transactions import ABORT, COMMIT, added, ended, wrote
from .transactions import begun as with_producer

LEVELS = ("read_committed", "read_uncommitted")


def in_transactions(level: str) -> list[Step]:
    """Aborts offsets 1, 2 and 4 (marker 5), and commits offset 7 (marker 8); 3 is outside the transactions."""
    return [
        configured("share.isolation.level", level),
        *setup_steps(),
        begun(),
        produced(b"0"),
        *with_producer(),
        added(0),
        wrote(0, b"1", b"2"),
        produced(b"3"),
        wrote(2, b"4"),
        *ended(ABORT),
        produced(b"6"),
        added(0),
        wrote(3, b"7"),
        *ended(COMMIT),
        produced(b"9", b"10"),
    ]


def of_level(level: str) -> list[Scenario]:
    return [
        scenario(
            "ShareFetch",
            f"an aborted transaction, {level}",
            in_transactions(level),
            first(),
            fetch(1, (0, 0, ACCEPT), (3, 3, ACCEPT), (6, 7, ACCEPT), (9, 10, ACCEPT)),
            fetch(2),
            read(-1),
        ),
        scenario(
            "ShareFetch",
            f"an open transaction, {level}",
            in_transactions(level),
            added(0),
            wrote(4, b"11"),
            produced(b"12"),
            first(),
            fetch(1, (0, 0, ACCEPT)),
            *ended(ABORT),
            fetch(2, wait=2_000),
            fetch(3),
            read(-1),
        ),
        scenario(
            "ShareAcknowledge",
            f"aborted records and markers, {level}",
            in_transactions(level),
            first(),
            say(1, (0, 10, ACCEPT)),
            say(2, (1, 2, RELEASE)),
            say(3, (4, 5, ACCEPT, GAP)),
            say(4, (8, 8, GAP)),
            say(5, (0, 0, RELEASE), (3, 3, RELEASE), (6, 7, RELEASE, REJECT), (9, 10, ACCEPT)),
            fetch(6, wait=2_000),
            read(-1),
        ),
    ]


SCENARIOS = [one for level in LEVELS for one in of_level(level)]
