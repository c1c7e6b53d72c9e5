"""The pair of brokers of the tests of mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import odradek
import pytest

from tests.server.harness.mirror_pair import Pair, admin_of


@pytest.fixture
def pair() -> Iterator[Pair]:
    with (
        odradek.Broker() as source,
        odradek.Broker() as here,
        closing(admin_of(source)) as there,
        closing(admin_of(here)) as admin,
    ):
        yield Pair(source, here, there, admin)
