"""Clusters for the commands: three nodes of Odradek, and Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cli.commands import Done, Run, odradek_command
from compat_tests.cli.three_node_cluster import three_nodes
from compat_tests.oracle import ApacheKafka


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the contexts and variables of the user who runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ODRADEK_BOOTSTRAP_SERVER", raising=False)


@pytest.fixture(scope="session")
def three_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the folders of the nodes of `three`."""
    return tmp_path_factory.mktemp("three")


@pytest.fixture(scope="session")
def three(three_directory: Path) -> Iterator[str]:
    """The addresses of three Odradek nodes."""
    with three_nodes(three_directory) as addresses:
        yield addresses


@pytest.fixture(scope="session", params=["odradek", "apache"])
def cluster(request: pytest.FixtureRequest) -> str:
    """The bootstrap addresses of either cluster."""
    if request.param == "odradek":
        addresses: str = request.getfixturevalue("three")
        return addresses
    apache: ApacheKafka = request.getfixturevalue("apache_kafka")
    return apache.bootstrap


@pytest.fixture
def run(cluster: str) -> Run:
    """Runs a command against the cluster."""

    def on_cluster(*words: str, stdin: bytes | str = b"") -> Done:
        return odradek_command(*words, "--bootstrap-server", cluster, stdin=stdin)

    return on_cluster
