"""The list of APIs: the messages of each stand in the module that its row names, and each module has a row."""

from __future__ import annotations

import pkgutil

import odradek.protocol.messages
from odradek.protocol.apis import APIS


def test_each_api_has_its_request_and_response_in_the_named_module() -> None:
    for key, api in APIS.items():
        for message, kind in ((api.request, "Request"), (api.response, "Response")):
            assert message.__name__ == api.name + kind
            assert message.__module__ == f"{odradek.protocol.messages.__name__}.{api.module}"
            assert message.SCHEMA.key == key


def test_each_module_of_messages_has_an_api() -> None:
    modules = {module.name for module in pkgutil.iter_modules(odradek.protocol.messages.__path__)}
    assert modules == {api.module for api in APIS.values()}
