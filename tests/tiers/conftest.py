"""Fixtures of the tests of tiered storage: Apache's classes in a JVM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.fixtures import java_tools  # noqa: F401  (pytest finds them by import)
from tests.tiers.harness.tier_oracle import TierOracle


@pytest.fixture(scope="session")
def tier_oracle(java_tools: None) -> Iterator[TierOracle]:  # noqa: F811
    """Starts Apache Kafka's classes of tiered storage, in one JVM for all tests."""
    oracle = TierOracle()
    yield oracle
    oracle.close()
