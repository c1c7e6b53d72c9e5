"""Classes of a user's own where Kafka loads Java classes: `python:package.module:Name`.

The module must be importable by the broker (PYTHONPATH). The class is made without arguments, once for each listener, each
time that the configuration is read.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeGuard

from ...metadata.configs import InvalidConfig

PREFIX = "python:"


def is_user_class(name: str | None) -> TypeGuard[str]:
    return name is not None and name.startswith(PREFIX)


def make_user_object(key: str, name: str) -> Any:
    """Returns an object of the class that `key` names. Raises InvalidConfig."""
    module_name, colon, class_name = name.removeprefix(PREFIX).partition(":")
    if not (module_name and colon and class_name.isidentifier()):
        raise InvalidConfig(f"{key}: {name!r} is not python:package.module:Name")
    try:
        made = getattr(import_module(module_name), class_name)()
    except Exception as error:  # whatever the user's code raises
        raise InvalidConfig(f"{key}: {name} cannot be made: {type(error).__name__}: {error}") from error
    if not callable(made):
        raise InvalidConfig(f"{key}: an object of {name} cannot be called")
    return made
