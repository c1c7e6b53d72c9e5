"""Fixtures of the test kit's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import odradek
import pytest

from compat_tests.wire import WireClient
from tests.protocol.conftest import codec_oracle, java_tools  # noqa: F401  (pytest finds them by import)


@pytest.fixture
def broker() -> Iterator[odradek.Broker]:
    """A broker on a thread of its own."""
    with odradek.Broker() as running:
        yield running


@pytest.fixture
def wire(broker: odradek.Broker) -> Iterator[WireClient]:
    """A client of bare requests, called "checkout"."""
    with WireClient(broker.bootstrap_servers, client_id="checkout", timeout=10) as client:
        yield client
