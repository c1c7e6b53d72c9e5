"""Fixtures for people who test their own applications against a real broker. They come with the package.

Each gives an `odradek.Broker`, or a function that starts one, on a thread of its own: give `broker.bootstrap_servers` to any
client. Synchronous tests and tests that are coroutines may use all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .broker import Broker


@pytest.fixture(scope="session")
def odradek_config() -> Mapping[str, str | int | float | bool]:
    """Kafka's broker properties for the session's broker: override it in your conftest.py."""
    return {}


@pytest.fixture(scope="session")
def odradek_session(odradek_config: Mapping[str, str | int | float | bool]) -> Iterator[Broker]:
    """One odradek.Broker for the whole test run, started when the first test asks for it. Tests share its topics."""
    from .broker import Broker

    with Broker(config=odradek_config) as broker:
        yield broker


@pytest.fixture
def odradek_broker(odradek_session: Broker) -> Broker:
    """The session's odradek.Broker, empty: topics and groups of earlier tests are deleted first, in milliseconds."""
    odradek_session.reset()
    return odradek_session


@pytest.fixture
def odradek_new_broker() -> Iterator[Callable[..., Broker]]:
    """A function that starts a further odradek.Broker: `odradek_new_broker(config={...})`. It stops after the test."""
    from .broker import Broker

    with ExitStack() as running:

        def start(**arguments: Any) -> Broker:
            return running.enter_context(Broker(**arguments))

        yield start
