"""The list of APIs: the messages and the contract of each stand in the module of its name."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections import defaultdict

import odradek.protocol.messages
import pytest
from odradek.protocol.apis import APIS, Api
from odradek.protocol.schema import NEVER, Message, Schema

from tests.harness.sources import files, text_of


def test_each_api_has_its_request_and_response_in_the_named_module() -> None:
    for key, api in APIS.items():
        for message, kind in ((api.request, "Request"), (api.response, "Response")):
            assert message.__name__ == api.name + kind
            assert message.__module__ == f"{odradek.protocol.messages.__name__}.{api.module}"
            assert message.SCHEMA.key == key


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_docstring_of_an_api_is_its_contract(api: Api) -> None:
    text = inspect.getdoc(sys.modules[api.request.__module__]) or ""
    schema = api.request.SCHEMA
    assert text.startswith(f"{api.name} (key {api.key}): ")
    contract = re.search(r"^Versions? (?P<versions>[\d-]+), (?P<flexible>[a-z 0-9]+)\.", text, re.MULTILINE)
    assert contract
    assert contract["versions"] == str(schema.versions)
    first = schema.flexible.low
    words = {
        schema.versions.low: "flexible" if len(versions_of(schema)) == 1 else "all flexible",
        NEVER: "never flexible",
    }
    assert contract["flexible"] == words.get(max(first, schema.versions.low), f"flexible from {first}")


def versions_of(schema: Schema) -> range:
    return range(schema.versions.low, schema.versions.high + 1)


def test_module_of_messages_has_one_api_or_structures_that_several_share() -> None:
    modules = {module.name for module in pkgutil.iter_modules(odradek.protocol.messages.__path__)}
    shared = modules - {api.module for api in APIS.values()}
    package = odradek.protocol.messages.__name__
    for name in sorted(shared):
        vars_of_users = [vars(importlib.import_module(f"{package}.{other}")) for other in modules - {name}]
        made = [
            value for value in vars(importlib.import_module(f"{package}.{name}")).values() if is_message_of(value, name)
        ]
        assert made
        users = [names for names in vars_of_users if any(value in names.values() for value in made)]
        assert len(users) > 1 or name == "default_principal_data", f"{name} is shared by no two APIs"


def is_message_of(value: object, module: str) -> bool:
    return isinstance(value, type) and issubclass(value, Message) and value.__module__.endswith(f".{module}")


def test_no_two_classes_of_the_protocol_have_one_name() -> None:
    declared: defaultdict[str, list[str]] = defaultdict(list)
    for name in files("*.py"):
        if name.startswith("protocol/"):
            classes = [node.name for node in ast.walk(ast.parse(text_of(name))) if isinstance(node, ast.ClassDef)]
            for one in classes:
                declared[one].append(name)
    assert {one: names for one, names in declared.items() if len(names) > 1} == {}
