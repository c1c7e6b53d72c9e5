"""The APIs that a node serves: one file each, named after the API, with its contract and handler as the value `ENDPOINT`.

An API is served and advertised if it has a file. The files of a folder are served where the part of that name runs.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...protocol.apis import APIS
from ..network.api_endpoint import ApiEndpoint
from ..network.dispatch import NotServed
from ..runtime.late_imports import GROUP_MODULES, TRANSACTION_MODULES, LateImports, load

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from ...protocol.schema import Message
    from ..access.authorization.requirements import Sessions
    from ..network.call import BoundHandle
    from ..network.listener_kind import ListenerKind

#: Served only where something receives metrics of clients.
_FOLDERS = frozenset({"client_telemetry"})


def endpoint_files(folders: frozenset[str] = _FOLDERS) -> dict[str, str]:
    """Returns the files by the name of their API in lower case, each as a module of this package. `folders`: those that
    are served.
    """
    here = Path(__file__).parent
    found = {name.replace("_", ""): f"{folder}.{name}" for folder in folders for name in _modules(here / folder)}
    return found | {name.replace("_", ""): name for name in _modules(here) if name not in _FOLDERS}


@cache
def _modules(folder: Path) -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules([str(folder)]))


def load_all() -> None:
    """Imports all that a node imports late, here and now, for a simulation: threads would make runs differ."""
    for file in endpoint_files().values():
        load((f"server.endpoints.{file}",))
    load(GROUP_MODULES + TRANSACTION_MODULES)


def endpoint_of(api: Api) -> ApiEndpoint:
    """Returns the endpoint of an API, imported. Raises NotServed."""
    return _loaded(api, endpoint_files()[api.name.lower()])


def _loaded(api: Api, file: str) -> ApiEndpoint:
    load((f"server.endpoints.{file}",))
    endpoint = getattr(import_module(f".{file}", __package__), "ENDPOINT", None)
    if not isinstance(endpoint, ApiEndpoint) or not endpoint.authorization:
        raise NotServed(f"{api.name} is not served, because its endpoint declares no authorization")
    return endpoint


class NodeEndpoints:
    """The endpoints of one node. `telemetry`: whether something receives metrics of clients."""

    def __init__(self, late_imports: LateImports, authorizer: Sessions | None, *, telemetry: bool = True) -> None:
        self._late_imports = late_imports
        self._authorizer = authorizer
        #: The first argument of the handlers; set before a listener accepts connections.
        self.services: Any = None
        self._files = endpoint_files(_FOLDERS if telemetry else frozenset())
        #: Those of requests that this node's controller has decided, by the key of their API.
        self._of_requests: dict[int, ApiEndpoint] = {}

    def __contains__(self, api: Api) -> bool:
        return api.name.lower() in self._files

    def is_loaded(self, api: Api) -> bool:
        """Returns whether the file is imported to its end, where `ENDPOINT` stands."""
        return hasattr(sys.modules.get(f"{__package__}.{self._files[api.name.lower()]}"), "ENDPOINT")

    def when_loaded(self, api: Api, then: Callable[[], None]) -> None:
        self._late_imports.when_loaded(self._modules(api), then)

    def load(self, api: Api) -> ApiEndpoint:
        """Returns the endpoint of an API that is served. Raises NotServed."""
        return _loaded(api, self._files[api.name.lower()])

    def bound(self, endpoint: ApiEndpoint, listener_kind: ListenerKind) -> BoundHandle:
        return endpoint.bound(self.services, self._authorizer, listener_kind)

    def of_request(self, request: Message) -> ApiEndpoint | None:
        """Returns the endpoint of a request; None for one that no node sends, of a controller to itself."""
        key = request.SCHEMA.key
        if key is None:
            return None
        endpoint = self._of_requests.get(key)
        if endpoint is None:
            endpoint = self._of_requests[key] = self.load(APIS[key])
        return endpoint

    def _modules(self, api: Api) -> tuple[str]:
        return (f"server.endpoints.{self._files[api.name.lower()]}",)
