"""Endpoints: each API has one file with its contract, and nothing else in `server/` names an API."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import odradek
import pytest
from odradek.protocol.apis import APIS, Api
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.replication.controller.controller import DECISIONS
from odradek.server import endpoints
from odradek.server.access.authorization.requirements import Each, Nothing
from odradek.server.endpoints import endpoint_files, endpoint_of, metadata
from odradek.server.network.api_endpoint import ApiEndpoint

from compat_tests.wire import ConnectionClosed, WireClient
from tests.harness.facts import kept_facts
from tests.harness.sources import files, text_of, tree_of

FILES = endpoint_files()
NAMES = {api.name for api in APIS.values()}
MODULES = {file.rpartition(".")[2] for file in FILES.values()}
#: A version by its number: "versions 3-13", "from version 6", "before v5".
REPEATED_VERSION = re.compile(r"\b(?:[Vv]ersions?(?:\s+from)?\s+|v)\d")
DECIDING = re.compile(r"(?:Decided|Answered) in `([^`]+)`")
EVERY_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


def module_of(api: Api) -> ModuleType:
    return importlib.import_module(f"{endpoints.__package__}.{FILES[api.name.lower()]}")


def test_every_api_has_a_file_and_every_file_an_api() -> None:
    assert set(FILES) == {name.lower() for name in NAMES}


@EVERY_API
def test_docstring_names_the_contract_and_repeats_no_versions(api: Api) -> None:
    text = module_of(api).__doc__ or ""
    assert text.startswith(f"{api.name}: ")
    assert f"Contract: `protocol/messages/{api.module}.py`." in text
    assert f"key {api.key}" not in text.splitlines()[0]
    assert not REPEATED_VERSION.search(text)


@EVERY_API
def test_docstring_names_the_file_that_decides(api: Api) -> None:
    for file in DECIDING.findall(module_of(api).__doc__ or ""):
        assert re.search(rf"\b{api.name}(?:Request|Response)\b", text_of(file)), f"{file} has no {api.name}"


@EVERY_API
def test_endpoint_has_requirements_and_a_handler(api: Api) -> None:
    endpoint = endpoint_of(api)
    assert endpoint.authorization
    assert endpoint.handle is not None or endpoint.place.handle is not None
    reasons = [one.reason for one in endpoint.authorization if isinstance(one, Nothing)]
    assert not reasons or (len(endpoint.authorization) == 1 and all(reasons)), "nothing, or something"


@EVERY_API
def test_requirements_of_items_are_applied_by_the_handler(api: Api) -> None:
    """A requirement of each item is a name of the module, or imported, and used beside its declaration; or a function that
    applies it is named.
    """
    module = module_of(api)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    used = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    for one in endpoint_of(api).authorization:
        if isinstance(one, Each) and one.by is None:
            names = [name for name, value in vars(module).items() if value is one]
            shared = {"READ_TOPICS": "denied_topics", "DESCRIBED_GROUPS": "describe", "NAMED_TOPICS": "describe"}
            uses = sum(used.count(name) + used.count(shared.get(name, "-")) for name in names)
            assert uses >= 2, f"{names} is declared and not applied"


def test_active_controller_decides_what_endpoints_say_it_does() -> None:
    decided = {api.name for api in APIS.values() if endpoint_of(api).place.is_controller}
    by_sessions = {"BrokerHeartbeat", "BrokerRegistration"}
    assert decided == (set(DECISIONS) & NAMES) - by_sessions


@EVERY_API
def test_paths_of_portions_are_arrays_of_the_messages(api: Api) -> None:
    for portioning in endpoint_of(api).portionings:
        for message, path in ((api.request, portioning.asked), (api.response, portioning.answered)):
            found: Any = message
            for name in path:
                field = next(field for field in found.SCHEMA.fields if field.name == name)
                found = field.type.element


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("broken", [None, "no requirement"])
def test_endpoint_without_requirements_is_not_served(broken: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with odradek.Broker() as broker:
        if broken is None:
            monkeypatch.setattr(metadata, "ENDPOINT", None)
        else:
            monkeypatch.setattr(metadata, "ENDPOINT", ApiEndpoint(handle=metadata.handle, authorization=()))
        with WireClient(broker.bootstrap_servers) as client, pytest.raises(ConnectionClosed):
            client.call(MetadataRequest(topics=[]), 9)
        monkeypatch.undo()
        with WireClient(broker.bootstrap_servers) as client:
            assert client.call(MetadataRequest(topics=[]), 9).brokers


@pytest.mark.usefixtures("processes")
def test_a_start_imports_no_endpoint() -> None:
    program = (
        "import sys, odradek\n"
        "with odradek.Broker():\n"
        "    found = [name for name in sys.modules if name.startswith('odradek.server.endpoints.')]\n"
        "assert not found, found\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr


# ---- the syntax trees

#: Ordinary words that are modules of APIs, too: directories of disks and pools have these names.
_WORDS = {"metadata", "fetch", "produce", "vote", "envelope", "heartbeat"}


def texts_in(node: ast.AST) -> tuple[set[str], set[str]]:
    """Returns the strings of a part of a program, and those within tables and comparisons."""
    found: set[str] = set()
    in_tables: set[str] = set()
    nodes = [(node, False)]
    for one, is_in_table in nodes:
        is_table = isinstance(one, ast.Dict | ast.Compare | ast.Set | ast.List | ast.Tuple | ast.MatchValue)
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            found.add(one.value)
            if is_in_table:
                in_tables.add(one.value)
        nodes += [(below, is_in_table or is_table) for below in ast.iter_child_nodes(one)]
    return found, in_tables


@kept_facts
def texts_of(file: str) -> tuple[set[str], set[str]]:
    return texts_in(tree_of(file))


def names_in(texts: tuple[set[str], set[str]]) -> set[str]:
    """Returns the names of APIs, and in tables and comparisons of their modules, that a part of a program states."""
    found, in_tables = texts
    return found & NAMES | in_tables & (MODULES - _WORDS)


def files_of_server() -> list[str]:
    return [file for file in files("server/*.py") if not file.startswith("server/endpoints/")]


def test_nothing_outside_its_endpoint_names_an_api() -> None:
    assert len(files_of_server()) > 100
    found = {file.rpartition("/")[2]: names for file in files_of_server() if (names := names_in(texts_of(file)))}
    # The words of a failure, which name the request that came.
    assert found == {"authentication.py": {"SaslAuthenticate"}}


@pytest.mark.parametrize(
    "program",
    [
        'TABLE = {"Produce": 1}',
        'if api.name == "Fetch": pass',
        'x = ("join_group", 1)',
        'match x:\n case "CreateTopics": y',
    ],
)
def test_the_reader_finds_names(program: str) -> None:
    assert names_in(texts_in(ast.parse(program)))


def test_endpoints_name_no_other_api() -> None:
    for api in APIS.values():
        texts = texts_of(f"server/endpoints/{FILES[api.name.lower()].replace('.', '/')}.py")
        others = names_in(texts) - {api.name, api.module}
        assert not others, api.name
