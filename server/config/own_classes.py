"""Classes of a user's own, in place of the Java classes that Kafka loads: `python:package.module:Name`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from ...metadata.configs import InvalidConfig

_OWN_CLASS = "python:"


@runtime_checkable
class Configurable(Protocol):
    """A class of a user's own that reads the node's properties."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Takes the node's own properties. An exception ends the start."""


def is_own_class(text: str) -> bool:
    """Returns whether the value of a class's key names a Python class."""
    return text.startswith(_OWN_CLASS)


def load_class(key: str, text: str, interface: type[Any], properties: Mapping[str, str] | None = None) -> Any:
    """Returns an instance of the class. `interface`: a runtime-checkable protocol. Raises InvalidConfig.

    With `properties`, a class that is Configurable is configured by them.
    """
    module, colon, name = text.removeprefix(_OWN_CLASS).rpartition(":")
    if not is_own_class(text) or not colon:
        raise InvalidConfig(f"{key}={text}: name your own class as python:package.module:Name")
    try:
        made = getattr(import_module(module), name)()
    except Exception as failure:
        raise InvalidConfig(f"{key}={text}: cannot be created: {type(failure).__name__}: {failure}") from failure
    if not isinstance(made, interface):
        raise InvalidConfig(f"{key}={text}: does not implement {interface.__name__}")
    if properties is not None and isinstance(made, Configurable):
        try:
            made.configure(properties)
        except Exception as failure:
            raise InvalidConfig(f"{key}={text}: configure failed: {failure}") from failure
    return made
