"""Facts about single files, which are kept from run to run as long as neither the file nor the code that finds them changes.

To parse all modules takes five seconds of CPU in each run, and a change touches few of them. A function with `@kept_facts`
takes the name of a file, reads no file but this one, and returns values of Python's built-in types. `.pytest_cache` has the
results of each function by file, with a digest of the file. They are dropped when this Python, the module of the
function or a module of this folder changes, and when a file has other bytes.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

from tests.harness.sources import ROOT, files, text_of

_Facts = TypeVar("_Facts")
FOLDER = ROOT / ".pytest_cache/facts"


@cache
def digest_of(name: str) -> bytes:
    return hashlib.sha256(text_of(name).encode()).digest()


class KeptFacts(Generic[_Facts]):
    """A function of the name of a file, with the results of earlier runs."""

    def __init__(self, find: Callable[[str], _Facts], folder: Path = FOLDER) -> None:
        self._find = find
        self._path = folder / f"{find.__module__}.{find.__qualname__}.pickle"
        self._facts: dict[str, tuple[bytes, _Facts]] | None = None
        self._has_found = False

    def __call__(self, name: str) -> _Facts:
        if self._facts is None:
            self._facts = self._load()
            atexit.register(self.save)
        kept = self._facts.get(name)
        if kept is None or kept[0] != digest_of(name):
            kept = self._facts[name] = (digest_of(name), self._find(name))
            self._has_found = True
        return kept[1]

    def _code(self) -> bytes:
        """Returns a digest of all code that the results depend on."""
        modules = {self._find.__code__.co_filename, *(str(ROOT / name) for name in files("tests/harness/*.py"))}
        texts = [Path(module).read_bytes() for module in sorted(modules)]
        return hashlib.sha256(b"\0".join([sys.version.encode(), *texts])).digest()

    def _load(self) -> dict[str, tuple[bytes, _Facts]]:
        # A file of another version, or a part of one, has nothing to keep.
        with suppress(Exception):
            code, facts = pickle.loads(self._path.read_bytes())
            if code == self._code():
                return dict(facts)
        return {}

    def save(self) -> None:
        """Writes the results for later runs, in one step: other processes may write theirs."""
        if not self._has_found or self._facts is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle, written = tempfile.mkstemp(dir=self._path.parent)
        with os.fdopen(handle, "wb") as file:
            pickle.dump((self._code(), self._facts), file)
        Path(written).replace(self._path)
        self._has_found = False


def kept_facts(find: Callable[[str], _Facts]) -> KeptFacts[_Facts]:
    return KeptFacts(find)
