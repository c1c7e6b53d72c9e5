"""Fixtures shared by the server's tests: a broker in this process with a client, and fixtures of other folders."""

from __future__ import annotations

from collections.abc import Iterator

import odradek
import pytest

from compat_tests.fixtures import java_tools  # noqa: F401  (found by being here)
from tests.server.harness.data_path import DataPath


@pytest.fixture(scope="module")
def broker(sockets: None) -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


@pytest.fixture
def path(broker: odradek.Broker) -> Iterator[DataPath]:
    found = DataPath(broker)
    yield found
    found.close()
