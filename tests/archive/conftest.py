"""One broker process for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.archive.harness.broker import Stand


@pytest.fixture(scope="module")
def stand(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    made = Stand(tmp_path_factory.mktemp("broker"))
    with made.process:
        yield made
