"""Modes of files and folders: only the owner may read them, whatever the umask is.

The metadata log holds passwords of keystores and keys of SCRAM, topics hold what users put into them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700
#: Missing folders above one: other users may pass, and write nothing.
_PARENT_MODE = 0o755
#: The rights of others in a mode.
RIGHTS_OF_OTHERS = 0o077


def make_folder(path: str | os.PathLike[str]) -> None:
    """Makes the folder, and those above it, unless it is there. Raises OSError."""
    folder = Path(path)
    missing = []
    for above in folder.parents:
        if above.exists():
            break
        missing.append(above)
    for above in reversed(missing):
        above.mkdir(_PARENT_MODE, exist_ok=True)
    folder.mkdir(FOLDER_MODE, exist_ok=True)


def restrict(path: str | os.PathLike[str]) -> bool:
    """Takes the rights of others from a file or a folder that is there. Returns whether others had any.

    One of another owner, and a folder that all users share, such as /tmp, stay as they are.
    """
    try:
        mode = os.lstat(path).st_mode
        if not mode & RIGHTS_OF_OTHERS or mode & stat.S_ISVTX or stat.S_ISLNK(mode):
            return False
        os.chmod(path, stat.S_IMODE(mode) & ~RIGHTS_OF_OTHERS)
    except OSError:
        return False
    return True


def restrict_folder(folder: str | os.PathLike[str]) -> None:
    """Takes the rights of others from a folder, and from its files if others could reach them until now."""
    if restrict(folder):
        restrict_files(folder)


def restrict_files(folder: str | os.PathLike[str]) -> None:
    """Takes the rights of others from the files in a folder."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                restrict(entry.path)
