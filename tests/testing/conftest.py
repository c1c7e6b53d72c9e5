"""Fixtures of the test kit's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import odradek
import pytest

from compat_tests.wire import WireClient
from tests.protocol.conftest import codec_oracle, java_tools  # noqa: F401  (pytest finds them by import)


@pytest.fixture
def broker(sockets: None) -> Iterator[odradek.Broker]:
    """Yields a broker on its own thread."""
    with odradek.Broker() as running:
        yield running


@pytest.fixture
def wire(broker: odradek.Broker) -> Iterator[WireClient]:
    """Yields a client that sends single requests, with the client id "checkout"."""
    with WireClient(broker.bootstrap_servers, client_id="checkout", timeout=60) as client:
        yield client
