"""One broker process for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.archive.harness.broker import Harness


@pytest.fixture(scope="module")
def harness(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    made = Harness(tmp_path_factory.mktemp("broker"))
    with made.process:
        yield made
