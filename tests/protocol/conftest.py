"""Fixtures of the codec's tests: Apache's jars, and its classes in a JVM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.fixtures import java_tools  # noqa: F401  (found by being here)
from tests.protocol.codec_oracle import CodecOracle


@pytest.fixture(scope="session")
def codec_oracle(java_tools: None) -> Iterator[CodecOracle]:  # noqa: F811
    """Apache Kafka's own codecs, in one JVM for all tests."""
    oracle = CodecOracle()
    yield oracle
    oracle.close()
