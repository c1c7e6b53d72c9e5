"""The command that installs an extra of this package, as the package itself was installed.

The name is on no index of packages that everyone uses, so `pip install odradek[cli]` may find nothing. What was installed
from a folder, an archive or an address is installed from there again. Otherwise the packages of the extra are named, which
pip finds by themselves.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_NAME = "odradek"
#: The requirements of an extra end with this.
_MARKER = re.compile(r"""\s*;\s*.*\bextra\s*==\s*["'](?P<extra>[^"']+)["']""")
#: A requirement on extras of this package itself.
_OWN = re.compile(rf"{_NAME}\[(?P<extras>[^\]]+)\]")


def install_command(*extras: str) -> str:
    """`pip install ...` for one or more extras."""
    names = f"{_NAME}[{','.join(extras)}]"
    installed = _installed()
    if not installed:
        return f"pip install '{names}'"
    # A checkout has metadata of its build, too, which are found first where it is the current directory.
    address = next(filter(None, map(_address_of, installed)), None)
    if address is not None:
        return f"pip install '{names} @ {address}'"
    packages = {one for extra in extras for one in _packages(installed[0].requires or [], extra)}
    return f"pip install {' '.join(repr(one) for one in sorted(packages))} (the packages of {names})"


def _installed() -> list[Distribution]:
    # With email, csv and zipfile it takes two megabytes, and all processes of this package import this module.
    from importlib.metadata import distributions

    return list(distributions(name=_NAME))


def _address_of(distribution: Distribution) -> str | None:
    """The address that pip has noted of an installation from a folder, an archive or a repository (PEP 610)."""
    text = distribution.read_text("direct_url.json")
    if text is None:
        return None
    noted = json.loads(text)
    version = noted.get("vcs_info")
    return f"{version['vcs']}+{noted['url']}@{version['commit_id']}" if version else str(noted["url"])


def _packages(requirements: list[str], extra: str) -> set[str]:
    found: set[str] = set()
    for text in requirements:
        marker = _MARKER.search(text)
        if marker is None or marker["extra"] != extra:
            continue
        requirement = text[: marker.start()].strip()
        if (own := _OWN.match(requirement)) is None:
            found.add(requirement)
            continue
        for name in own["extras"].split(","):
            found |= _packages(requirements, name.strip())
    return found
