"""Where a backup is kept: a folder, or an object store by fsspec. A file is there whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol, Union

from ...client.user_errors import Misused, UserError
from ...extras import install_command
from ...storage.files.modes import FILE_MODE, make_folder, restrict
from ...storage.files.regular_files import read_regular_file

_LOCK = ".lock"

Options = dict[str, Union[str, "Options"]]


class Store(Protocol):
    """Files by name; names have `/` between their parts."""

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError, OSError, and UserError for a name that leads out of the store."""

    def write(self, name: str, data: bytes) -> None: ...

    def names(self, under: str) -> list[str]:
        """Names below a folder, sorted."""

    def delete(self, under: str) -> None:
        """Deletes a folder with all in it, if there is one."""

    def only_one(self) -> contextlib.AbstractContextManager[None]:
        """Keeps out another process that would write, where the store can do that."""


def open_store(place: str, options: Mapping[str, str]) -> Store:
    """The store of a path or of a URL such as s3://bucket/prefix. Raises UserError without the extra."""
    scheme, is_url, path = place.partition("://")
    if not is_url or scheme == "file":
        if options:
            raise Misused("--store-option is for object stores: a folder has none")
        return FolderStore(Path(path if is_url else place))
    return ObjectStore(place, options)


class FolderStore:
    """A folder of this machine. A file appears under its name when it is whole and on the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes:
        folder = self._folder.resolve()
        path = (folder / name).resolve()
        if not path.is_relative_to(folder):
            raise UserError(f"{name!r} lies outside the backup")
        return read_regular_file(path)

    def write(self, name: str, data: bytes) -> None:
        path = self._folder / name
        self._make(path.parent)
        written = path.with_name(f"{path.name}.tmp")
        with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _make(self, folder: Path) -> None:
        """Makes a folder of the backup: only the owner may read passwords and records."""
        if not folder.is_dir():
            if folder != self._folder:
                self._make(folder.parent)
            make_folder(folder)

    def names(self, under: str) -> list[str]:
        found = (path for path in (self._folder / under).rglob("*") if path.is_file() and path.suffix != ".tmp")
        return sorted(str(path.relative_to(self._folder)) for path in found)

    def delete(self, under: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder / under)

    @contextlib.contextmanager
    def only_one(self) -> Iterator[None]:
        make_folder(self._folder)
        if (self._folder / _LOCK).exists():  # a backup, which an older version may have made
            restrict(self._folder)
            for folder, _, files in os.walk(self._folder):
                restrict(folder)
                for name in files:
                    restrict(Path(folder, name))
        fd = os.open(self._folder / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(fd, "w") as lock:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(f"{self._folder} is in use by another backup or restore") from None
            yield


class ObjectStore:
    """An object store. A PUT makes an object whole or not at all."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        try:
            import fsspec

            self._files, self._root = fsspec.core.url_to_fs(url, **_nested(options))
        except ImportError as missing:
            raise UserError(f"{url} needs {missing.name}: {install_command('backup')}") from None
        except ValueError as unknown:
            raise Misused(f"{url}: {unknown}") from None

    def read(self, name: str) -> bytes:
        data: bytes = self._files.cat_file(f"{self._root}/{name}")
        return data

    def write(self, name: str, data: bytes) -> None:
        self._files.pipe_file(f"{self._root}/{name}", data)

    def names(self, under: str) -> list[str]:
        self._files.invalidate_cache()
        found = self._files.find(f"{self._root}/{under}")
        return sorted(name.removeprefix(f"{self._root}/") for name in found)

    def delete(self, under: str) -> None:
        if self.names(under):
            self._files.rm(f"{self._root}/{under}", recursive=True)
        self._files.invalidate_cache()

    def only_one(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def _nested(options: Mapping[str, str]) -> Options:
    """`client_kwargs.region_name=x` as {"client_kwargs": {"region_name": "x"}}."""
    made: Options = {}
    for name, value in options.items():
        place = made
        *above, last = name.split(".")
        for part in above:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise Misused(f"{name} is inside {part}, which has a value already")
            place = inner
        place[last] = value
    return made
