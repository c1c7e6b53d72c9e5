"""Fixtures for people who test their own applications against a real broker. They come with the package.

- `odradek_session`: one broker for the whole run, on a thread of its own; started when the first test asks for it.
- `odradek_broker`: the same broker, empty: whatever topics and groups the last test left are deleted first.
- `odradek_new_broker`: a function that starts further brokers, each with its own configuration, for one test.

Each is an `odradek.Broker`: give `broker.bootstrap_servers` to any client. The properties of the session's broker come
from the fixture `odradek_config`, which a test-suite may override.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..embedded import Broker


@pytest.fixture(scope="session")
def odradek_config() -> Mapping[str, str]:
    """Kafka's broker properties for the session's broker; override it in your conftest.py."""
    return {}


@pytest.fixture(scope="session")
def odradek_session(odradek_config: Mapping[str, str]) -> Iterator[Broker]:
    from ..embedded import Broker

    with Broker(config=odradek_config) as broker:
        yield broker


@pytest.fixture
def odradek_broker(odradek_session: Broker) -> Broker:
    odradek_session.reset_from_thread()
    return odradek_session


@pytest.fixture
def odradek_new_broker() -> Iterator[Callable[..., Broker]]:
    from ..embedded import Broker

    with ExitStack() as running:

        def start(**arguments: Any) -> Broker:
            return running.enter_context(Broker(**arguments))

        yield start
