"""The remote store that a configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from .guarded_store import GuardedStore
from .store import InvalidStore, RemoteStore

#: `remote.log.storage.manager.class.name` of a store of a user's own: `python:module:Name`.
PYTHON_PREFIX = "python:"
_STORES = {
    "org.apache.kafka.server.log.remote.storage.LocalTieredStorage": f"{__package__}.folder_store:FolderStore",
    "folder": f"{__package__}.folder_store:FolderStore",
    "objects": f"{__package__}.object_store:ObjectStore",
}

_METHODS = (
    "create", "copy_log_segment_data", "fetch_log_segment", "fetch_index", "delete_log_segment_data", "objects", "close",
)  # fmt: skip


def make_store(class_name: str, config: Mapping[str, str], *, creates: bool = False) -> RemoteStore:
    """Makes the store of `remote.log.storage.manager.class.name`; `config` has the keys below its prefix, without it.

    The name is that of Apache's LocalTieredStorage, `folder`, `objects`, or `python:module:Name` of a class that takes the
    configuration as its argument. `creates`: for a broker that starts. Raises InvalidStore.
    """
    target = class_name[len(PYTHON_PREFIX) :] if class_name.startswith(PYTHON_PREFIX) else _STORES.get(class_name)
    module, _, name = (target or "").partition(":")
    if not module or not name:
        raise InvalidStore(f"{class_name!r} is not a store: use folder, objects or {PYTHON_PREFIX}module:Name")
    try:
        made: RemoteStore = getattr(import_module(module), name)(config)
        missing = [one for one in _METHODS if not callable(getattr(made, one, None))]
        if missing:
            raise InvalidStore(f"{class_name} has no method {', '.join(missing)}")
        if class_name.startswith(PYTHON_PREFIX):
            made = GuardedStore(made, name)
        if creates:
            made.create()
    except InvalidStore:
        raise
    except Exception as error:
        raise InvalidStore(f"{class_name}: {type(error).__name__}: {error}") from error
    return made
