"""CRC-32C, by the package `crc32c`.

Its extension module is loaded without the package around it: that reads the metadata of installed packages, which takes a
tenth of a broker's start and a megabyte and a half of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _extension() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("_crc32c", places) if places is not None else None
    if spec is None or spec.loader is None:  # installed in another way
        from crc32c import crc32c as of_package

        return of_package
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., int] = module.crc32c
    return found


#: Returns the checksum of a buffer; a second argument is the checksum of the bytes before it.
crc32c: Callable[..., int] = _extension()
