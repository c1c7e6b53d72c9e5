"""Fixtures of the codec tests: Apache's jars, and its classes in a JVM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.fixtures import java_tools  # noqa: F401  (pytest finds them by import)
from tests.protocol.codec_oracle import CodecOracle


@pytest.fixture(scope="session")
def codec_oracle(java_tools: None) -> Iterator[CodecOracle]:  # noqa: F811
    """Starts Apache Kafka's own codecs, in one JVM for all tests."""
    oracle = CodecOracle()
    yield oracle
    oracle.close()
