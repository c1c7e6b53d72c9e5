"""The tiers of tests, by the fixtures that a test has (tests/conftest.py)."""

from __future__ import annotations

import pytest

TIERS = ("pure", "broker", "everything")
PURE, BROKER, EVERYTHING = range(3)
#: Fixtures by whose name a test is in a tier.
TIER_OF_FIXTURE = {"sockets": BROKER, "processes": EVERYTHING, "java_tools": EVERYTHING}


def tier_of(item: pytest.Item) -> int:
    names = getattr(item, "fixturenames", ())
    return max((TIER_OF_FIXTURE.get(name, PURE) for name in names), default=PURE)
