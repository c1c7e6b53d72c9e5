"""Secured brokers for the tests of this folder, each started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.security.secured import Secured, secured_kafka, secured_odradek


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_odradek(tmp_path_factory.mktemp("secured-odradek")) as broker:
        yield broker


@pytest.fixture(scope="session")
def secured_oracle(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_kafka(tmp_path_factory.mktemp("secured-kafka")) as broker:
        yield broker
