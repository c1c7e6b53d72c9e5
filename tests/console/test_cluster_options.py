"""A console of several clusters: connectors, metrics, checkpoints and schemas are those of one cluster, not of all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from odradek.admin.connection import Connection
from odradek.console import command
from odradek.console.backend import Backend
from odradek.console.settings import Settings

from compat_tests.cli.commands import odradek_command

Clusters = dict[str, Settings]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clusters:
    """The settings of each cluster of the console that a command would serve; those without a name are under ""."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name, more in (("east", ("-X", "schema.registry.url=http://registry.east")), ("west", ())):
        done = odradek_command("context", "add", name, "-b", "127.0.0.1:9", *more)
        assert done.status == 0, done.err
    found: Clusters = {}

    def serve(
        connection: Connection, named: Mapping[str, tuple[Connection, Settings]], settings: Settings, *tls: Any
    ) -> None:
        found.clear()
        found[""] = settings
        found.update({name: of_cluster for name, (_, of_cluster) in named.items()})
        for name, (of, own) in named.items():
            made = Backend(of, own, name)
            found[f"{name}'s registry"] = made.schemas.url if made.schemas is not None else None  # type: ignore[assignment]

    monkeypatch.setattr(command, "_serve", serve)
    return found


_BOTH = ("--cluster", "east", "--cluster", "west")


def test_services_belong_to_the_cluster_that_they_name(served: Clusters) -> None:
    options = (
        "--connect",
        "west=http://connect.west/a=b",
        "--metrics",
        "east=http://one",
        "--metrics",
        "west=http://two",
    )
    folders = ("--checkpoint", "east=/data/a=b", "--checkpoint", "west=/data/w", "--checkpoint", "west=/data/x")
    done = odradek_command("console", *_BOTH, *options, *folders, "--schema-registry", "west=http://registry.west")
    assert done.status == 0, done.err
    east, west = served["east"], served["west"]
    assert (east.connect, west.connect) == (None, "http://connect.west/a=b")
    assert (east.metrics, west.metrics) == (("http://one",), ("http://two",))
    assert (east.checkpoints, west.checkpoints) == ((Path("/data/a=b"),), (Path("/data/w"), Path("/data/x")))
    assert (east.schema_registry, west.schema_registry) == ("http://registry.east", "http://registry.west")


def test_registry_of_the_environment_is_of_no_cluster_among_several(
    served: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_SCHEMA_REGISTRY", "http://registry.anywhere")
    assert odradek_command("console", *_BOTH).status == 0
    assert (served["east's registry"], served["west's registry"]) == ("http://registry.east", None)
    assert odradek_command("console", "--cluster", "west").status == 0
    assert served["west's registry"] == "http://registry.anywhere"


@pytest.mark.parametrize("option", ["--connect", "--metrics", "--checkpoint", "--schema-registry"])
def test_value_that_names_no_cluster_is_refused_among_several(served: Clusters, option: str) -> None:
    done = odradek_command("console", *_BOTH, option, "http://somewhere")
    assert done.status == 2 and f"needs {option} CONTEXT=http://somewhere, with one of east, west" in done.err
    assert not served
    done = odradek_command("console", *_BOTH, option, "north=http://somewhere")
    assert done.status == 2 and not served


@pytest.mark.parametrize("names", [(), ("--cluster", "west")])
def test_only_cluster_needs_no_name(served: Clusters, names: tuple[str, ...]) -> None:
    options = ("--connect", "http://connect", "--metrics", "http://one?a=b", "--checkpoint", "x=y")
    done = odradek_command("console", *names, *options, "--schema-registry", "http://registry")
    assert done.status == 0, done.err
    own = served["west" if names else ""]
    assert (own.connect, own.metrics, own.checkpoints) == ("http://connect", ("http://one?a=b",), (Path("x=y"),))
    assert own.schema_registry == "http://registry"


@pytest.mark.parametrize("option", ["--connect", "--schema-registry"])
def test_second_service_of_a_cluster_is_refused(served: Clusters, option: str) -> None:
    done = odradek_command("console", option, "http://a", option, "http://b")
    assert done.status == 2 and f"{option} is given more than once" in done.err


@pytest.mark.parametrize("option", ["--connect", "--metrics"])
def test_address_that_is_none_is_refused(served: Clusters, option: str) -> None:
    done = odradek_command("console", *_BOTH, option, "west=somewhere")
    assert done.status == 2 and f"{option} somewhere: give the http:// address" in done.err
