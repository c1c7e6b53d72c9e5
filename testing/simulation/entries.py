"""Entries of directories, which a power loss takes back as long as they are not durable.

A creation, rename or deletion is durable when its directory is synced, or after COMMIT_S. A sync of a file makes its content
durable, and not its name (fsync(2)). A power loss takes back the newest changes that are not durable, all or some of them.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .replacements import Replacements

#: XFS commits what it has after 30 s, and ext4 after 5 s.
COMMIT_S = 30.0
#: How often a power loss takes back all changes that are not durable, and how often none of them.
_ALL_SHARE, _NONE_SHARE = 0.5, 0.2
#: Removed files are kept here, so that a power loss can bring them back.
_ATTIC = ".removed"

#: Device and inode.
Inode = tuple[int, int]
AnyPath = str | bytes | int | os.PathLike[str]
_CREATED, _REMOVED, _RENAMED = "created", "removed", "renamed"


class _Entry(NamedTuple):
    """A name in a directory."""

    directory: Inode
    name: str


class _EntryChange(NamedTuple):
    """A change of one entry; of a rename, `source` is the former one. `inode`: what the entry stands for after it, or stood
    for before a removal. `kept`: what it stood for before, if that was another file.
    """

    at: float
    kind: str
    entry: _Entry
    inode: Inode
    is_directory: bool
    source: _Entry | None = None
    kept: Path | None = None

    def is_in(self, directory: Inode) -> bool:
        return self.entry.directory == directory or (self.source is not None and self.source.directory == directory)


class Entries:
    """The changes of entries that are not durable, of each node below `root`. `on_emptied` is called with each file that an
    open truncates.
    """

    def __init__(
        self, root: Path, rng: Random, clock: Callable[[], float], on_emptied: Callable[[Inode], None]
    ) -> None:
        self._root = os.path.join(root, "")
        self._attic = root / _ATTIC
        self._rng = rng
        self._clock = clock
        self._on_emptied = on_emptied
        #: By node, in order.
        self._changes: dict[str, list[_EntryChange]] = {}
        self._nameless: set[Inode] = set()
        self._kept = 0
        #: The number of changes that power losses have taken back.
        self.taken_back = 0
        self._is_undoing = False

    def install(self, replacements: Replacements) -> None:
        replacements.replace(os, "open", self._open(os.open))
        opened = self._open_file(builtins.open)
        replacements.replace(builtins, "open", opened)
        replacements.replace(io, "open", opened)
        for name in ("unlink", "remove"):
            replacements.replace(os, name, self._remove(getattr(os, name)))
        replacements.replace(os, "rmdir", self._remove(os.rmdir))
        for name in ("rename", "replace"):
            replacements.replace(os, name, self._rename(getattr(os, name)))
        replacements.replace(os, "mkdir", self._make(os.mkdir, 0))
        replacements.replace(os, "link", self._make(os.link, 1))

    def is_nameless(self, file: Inode) -> bool:
        """Returns whether a power loss may leave the file without its name."""
        return file in self._nameless

    # ---- durable changes

    def synced(self, path: str, directory: Inode) -> None:
        """Notes that a directory is synced."""
        self._keep_changes(self._node_of(path), lambda change: not change.is_in(directory))

    def all_synced(self, node: str) -> None:
        self._keep_changes(node, lambda change: False)

    def _keep_changes(self, node: str, is_kept: Callable[[_EntryChange], bool]) -> None:
        since = self._clock() - COMMIT_S
        kept = []
        for change in self._changes.get(node, ()):
            if change.at > since and is_kept(change):
                kept.append(change)
            else:
                self._settle(change)
        self._changes[node] = kept

    def _settle(self, change: _EntryChange) -> None:
        self._nameless.discard(change.inode)
        if change.kept is not None:
            self._undoing(lambda: change.kept.unlink(missing_ok=True))  # type: ignore[union-attr]

    # ---- power losses

    def power_failure(self, node: str) -> None:
        """Takes changes back."""
        self._keep_changes(node, lambda change: True)
        changes = self._changes.pop(node, [])
        if not changes:
            return
        drawn = self._rng.random()
        if drawn < _ALL_SHARE:
            kept = 0
        else:
            kept = len(changes) if drawn < _ALL_SHARE + _NONE_SHARE else self._rng.randrange(len(changes) + 1)
        self._undoing(lambda: self._undo(node, changes[kept:]))
        for change in changes:
            self._settle(change)
        self.taken_back += len(changes) - kept

    def _undo(self, node: str, changes: list[_EntryChange]) -> None:
        #: The inodes that directories had before they were removed and made again.
        former: dict[Inode, Inode] = {}
        directories = dict(self._directories(node, former))
        for change in reversed(changes):
            self._undo_one(change, directories, former)
            if change.is_directory:
                directories = dict(self._directories(node, former))

    def _directories(self, node: str, former: dict[Inode, Inode]) -> Iterator[tuple[Inode, str]]:
        for path, _, _ in os.walk(self._root + node):
            inode = _inode(os.stat(path))
            yield former.get(inode, inode), path

    def _undo_one(self, change: _EntryChange, directories: dict[Inode, str], former: dict[Inode, Inode]) -> None:
        """Changes of other directories may be durable: what they have taken away stays away."""
        folder = directories.get(change.entry.directory)
        if folder is None:
            return
        path = os.path.join(folder, change.entry.name)
        if change.kind == _REMOVED:
            if change.is_directory:
                os.mkdir(path, 0o700)
                former[_inode(os.stat(path))] = change.inode
            else:
                assert change.kept is not None
                os.rename(change.kept, path)
            return
        if not os.path.lexists(path):
            return
        inode = _inode(os.lstat(path))
        if former.get(inode, inode) != change.inode:
            return
        if change.source is not None:
            source = directories.get(change.source.directory)
            if source is None:
                return
            os.rename(path, os.path.join(source, change.source.name))
            if change.kept is not None:
                os.rename(change.kept, path)
        elif change.is_directory:
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def _undoing(self, work: Callable[[], object]) -> None:
        self._is_undoing = True
        try:
            work()
        finally:
            self._is_undoing = False

    # ---- replaced functions

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def opened(path: AnyPath, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            place = self._place(path, dir_fd) if flags & (os.O_CREAT | os.O_TRUNC) else None
            if place is None:
                return real(path, flags, mode, dir_fd=dir_fd)
            is_new = not os.path.lexists(place)
            fd = real(path, flags, mode, dir_fd=dir_fd)
            self._opened(place, os.fstat(fd), is_new=is_new, is_emptied=bool(flags & os.O_TRUNC))
            return fd

        return opened

    def _open_file(self, real: Callable[..., IO[bytes]]) -> Callable[..., IO[bytes]]:
        def opened(file: AnyPath, mode: str = "r", *arguments: object, **named: object) -> IO[bytes]:
            place = None if mode in ("r", "rb") or isinstance(file, int) else self._place(file, None)
            if place is None:
                return real(file, mode, *arguments, **named)
            is_new = not os.path.lexists(place)
            result = real(file, mode, *arguments, **named)
            self._opened(place, os.fstat(result.fileno()), is_new=is_new, is_emptied="w" in mode)
            return result

        return opened

    def _opened(self, place: str, status: os.stat_result, *, is_new: bool, is_emptied: bool) -> None:
        if is_new:
            self._note(place, _CREATED, status)
        elif is_emptied:
            self._on_emptied(_inode(status))

    def _make(self, real: Callable[..., None], target: int) -> Callable[..., None]:
        """Replaces a function that makes an entry; its path is the argument of the number `target`."""

        def made(*arguments: AnyPath, dir_fd: int | None = None, **named: object) -> None:
            if dir_fd is not None:
                named["dir_fd"] = dir_fd
            real(*arguments, **named)
            place = self._place(arguments[target], dir_fd)
            if place is not None:
                self._note(place, _CREATED, os.lstat(place))

        return made

    def _remove(self, real: Callable[..., None]) -> Callable[..., None]:
        def removed(path: AnyPath, *, dir_fd: int | None = None) -> None:
            place = self._place(path, dir_fd)
            if place is None or not os.path.lexists(place):
                real(path, dir_fd=dir_fd)
                return
            status = os.lstat(place)
            kept = self._keep(place, status)
            real(path, dir_fd=dir_fd)
            self._note(place, _REMOVED, status, kept=kept)

        return removed

    def _rename(self, real: Callable[..., None]) -> Callable[..., None]:
        def renamed(source: AnyPath, target: AnyPath, **named: object) -> None:
            before, after = self._place(source, None), self._place(target, None)
            if before is None or after is None or _is_same_file(before, after):
                real(source, target, **named)
                return
            kept = self._keep(after, os.lstat(after)) if os.path.lexists(after) else None
            real(source, target, **named)
            self._note(after, _RENAMED, os.lstat(after), source=_entry(before), kept=kept)

        return renamed

    # ---- changes

    def _place(self, path: AnyPath, dir_fd: int | None) -> str | None:
        """Returns the absolute path, if it is one of a node."""
        if self._is_undoing or isinstance(path, int):
            return None
        text = os.fsdecode(path)
        if dir_fd is not None:
            text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)
        return text if text.startswith(self._root) else None

    def _node_of(self, path: str) -> str:
        return path.removeprefix(self._root).partition(os.sep)[0]

    def _keep(self, place: str, status: os.stat_result) -> Path | None:
        if stat.S_ISDIR(status.st_mode):
            return None
        self._kept += 1
        path = self._attic / str(self._kept)

        def link() -> None:
            self._attic.mkdir(exist_ok=True)
            os.link(place, path)

        self._undoing(link)
        return path

    def _note(
        self,
        place: str,
        kind: str,
        status: os.stat_result,
        *,
        source: _Entry | None = None,
        kept: Path | None = None,
    ) -> None:
        is_directory = stat.S_ISDIR(status.st_mode)
        change = _EntryChange(self._clock(), kind, _entry(place), _inode(status), is_directory, source, kept)
        self._changes.setdefault(self._node_of(place), []).append(change)
        if kind == _CREATED and not is_directory:
            self._nameless.add(change.inode)


def _is_same_file(before: str, after: str) -> bool:
    """Returns whether both are names of one file, which a rename leaves as they are (rename(2))."""
    return os.path.lexists(after) and os.path.samestat(os.lstat(before), os.lstat(after))


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def _entry(place: str) -> _Entry:
    folder, name = os.path.split(place)
    return _Entry(_inode(os.stat(folder)), name)
