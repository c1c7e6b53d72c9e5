"""Queries with the sink, on Odradek and on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from odradek.admin.session import Admin
from odradek.client.cluster import Address, Cluster

from compat_tests.broker_process import BrokerProcess
from compat_tests.sink.harness import Query


@pytest.fixture(scope="module", params=["odradek", "apache_kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    running: BrokerProcess = request.getfixturevalue(request.param)
    return running.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    host, _, port = bootstrap.rpartition(":")
    with closing(Admin(Cluster([Address(host, int(port))], "tests", 30.0), 30.0, 30.0)) as made:
        yield made


@pytest.fixture
def query(admin: Admin, bootstrap: str) -> Query:
    return Query(admin, bootstrap)
