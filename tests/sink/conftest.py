"""A broker in this process with a topic for each test, and an administrator of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import count

import odradek
import pytest

from compat_tests.recipes import make_topic
from tests.sink.intercepted_admin import InterceptedAdmin

_numbers = count()


@pytest.fixture(scope="session")
def broker(sockets: None) -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


@pytest.fixture
def admin(broker: odradek.Broker) -> Iterator[InterceptedAdmin]:
    with closing(InterceptedAdmin(broker.bootstrap_servers)) as made:
        yield made


@pytest.fixture
def topic(broker: odradek.Broker) -> str:
    name = f"orders-{next(_numbers)}"
    make_topic(broker.bootstrap_servers, name, 3)
    return name
