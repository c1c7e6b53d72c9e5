"""The table of handlers: a row of `forwarded.py`, or a file with a function `handle(services, call)`, for each API."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...protocol.apis import APIS
from ..runtime.late_imports import API_MODULES, is_loaded, load
from .forwarded import FORWARDED

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from ...protocol.schema import Message
    from ..network.call import Call
    from ..network.dispatch import Handler
    from ..runtime.late_imports import LateImports
    from ..services import NodeServices


def handled_apis() -> frozenset[str]:
    """Returns the modules of the APIs that have a handler."""
    files = {module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])}
    return frozenset(FORWARDED) | (files - {"forwarded", "table"})


#: The APIs of client telemetry, served only where something receives metrics.
TELEMETRY_APIS = frozenset({"get_telemetry_subscriptions", "push_telemetry"})


def load_all() -> None:
    """Imports what is imported late here and now, for a simulation: threads would make runs differ."""
    for api in APIS.values():
        if api.name in API_MODULES:
            load(_modules(api))


def _modules(api: Api) -> tuple[str, ...]:
    modules = API_MODULES.get(api.name, ())
    return modules if api.module in FORWARDED else (*modules, f"server.handlers.{api.module}")


class Handlers:
    """The handlers of one node. `services` is called with the first use of each handler.

    `without`: the modules of APIs that this node does not serve.
    """

    def __init__(
        self, services: Callable[[], NodeServices], late_imports: LateImports, without: frozenset[str] = frozenset()
    ) -> None:
        self._services = services
        self._late_imports = late_imports
        self._apis = handled_apis() - without

    def __contains__(self, api: Api) -> bool:
        return api.module in self._apis

    def load(self, api: Api) -> Handler:
        """Returns the handler of an API. It may reply later: when the modules that it needs are imported."""
        if api.name in API_MODULES and not is_loaded(_modules(api)):
            return LateHandler(_modules(api), self._late_imports, partial(self._loaded, api))
        return self._loaded(api)

    def _loaded(self, api: Api) -> Handler:
        handle = FORWARDED.get(api.module)
        if handle is None:
            handle = import_module(f".{api.module}", __package__).handle
        services: Any = self._services()  # of a broker, where the handler is one of a broker's listener
        return partial(handle, services)


class LateHandler:
    """The handler of an API until its modules have been imported, on a thread; its requests wait for that."""

    def __init__(self, modules: tuple[str, ...], late_imports: LateImports, load: Callable[[], Handler]) -> None:
        self._modules = modules
        self._late_imports = late_imports
        self._load = load
        self._handle: Handler | None = None

    def prepare(self, then: Callable[[], None]) -> None:
        """Calls `then` when the modules are imported."""
        self._late_imports.when_loaded(self._modules, then)

    def __call__(self, call: Call) -> Message | None:
        if self._handle is not None:
            return self._handle(call)
        call.hold_connection()
        self._late_imports.when_loaded(self._modules, partial(self._go_on, call))
        return None

    def _go_on(self, call: Call) -> None:
        if call.connection.closed:
            return
        route = call.route
        try:
            self._handle = handle = self._load()
            for name in ("handle", "handle_large"):
                if getattr(route, name) is self:
                    setattr(route, name, handle)
            response = handle(call)
            if response is not None:
                call.reply(response)
        except Exception as failure:
            call.connection.dispatcher.failed_later(call, route, failure)
