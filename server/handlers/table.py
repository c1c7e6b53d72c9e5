"""The table of handlers: a row of `forwarded.py`, or a file with a function `handle(services, call)`, for each API."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .forwarded import FORWARDED

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from ..network.dispatch import Handler
    from ..services import NodeServices


def handled_apis() -> frozenset[str]:
    """Returns the modules of the APIs that have a handler."""
    files = {module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])}
    return frozenset(FORWARDED) | (files - {"forwarded", "table"})


class Handlers:
    """The handlers of one node. `services` is called with the first use of each handler."""

    def __init__(self, services: Callable[[], NodeServices]) -> None:
        self._services = services
        self._apis = handled_apis()

    def __contains__(self, api: Api) -> bool:
        return api.module in self._apis

    def load(self, api: Api) -> Handler:
        handle = FORWARDED.get(api.module)
        if handle is None:
            handle = import_module(f".{api.module}", __package__).handle
        services: Any = self._services()  # of a broker, where the handler is one of a broker's listener
        return partial(handle, services)
