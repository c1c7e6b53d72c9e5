"""Users of the console: a file with one line each, `name:role:pbkdf2$ITERATIONS$SALT$HASH`, mode 0600.

An editor changes the topics of some patterns alone: the role is `editor=PATTERN,PATTERN` then, with `*` for any characters.

Passwords are hashed with PBKDF2-HMAC-SHA256. A scrypt of the same strength takes more memory than the console may.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ...client.reasons import reason_of
from ...client.user_errors import Misused

ITERATIONS = 600_000
_MOST_FILE_BYTES = 1 << 20
_MOST_PASSWORD_BYTES = 1024
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,100}")
_KEPT = re.compile(r"pbkdf2\$[1-9][0-9]{0,7}\$([0-9a-f]{2})+\$([0-9a-f]{2})+")
ADMIN, VIEWER, EDITOR = "admin", "viewer", "editor"
_ROLE = re.compile(rf"{ADMIN}|{VIEWER}|{EDITOR}=[A-Za-z0-9._*-]{{1,249}}(,[A-Za-z0-9._*-]{{1,249}}){{0,99}}")
#: One hash at a time: guesses wait for each other, and take no processor from other requests.
_hashing = threading.Lock()


@dataclass(frozen=True, slots=True)
class User:
    """`role`: as the file has it."""

    name: str
    role: str

    @property
    def may_change(self) -> bool:
        return self.role == ADMIN

    @property
    def may_change_some(self) -> bool:
        return self.may_change or self.role.startswith(EDITOR)

    def may_change_topic(self, name: str) -> bool:
        if self.may_change:
            return True
        role, _, patterns = self.role.partition("=")
        return role == EDITOR and any(fnmatchcase(name, one) for one in patterns.split(","))


def is_role(text: str) -> bool:
    return _ROLE.fullmatch(text) is not None


def _hash(password: str, salt: bytes, iterations: int) -> bytes:
    with _hashing:
        data = password.encode(errors="surrogatepass")[:_MOST_PASSWORD_BYTES]
        return hashlib.pbkdf2_hmac("sha256", data, salt, iterations)


def hashed(password: str) -> str:
    salt = secrets.token_bytes(16)
    return f"pbkdf2${ITERATIONS}${salt.hex()}${_hash(password, salt, ITERATIONS).hex()}"


def _matches(password: str, kept: str) -> bool:
    _, iterations, salt, digest = kept.split("$")
    return hmac.compare_digest(_hash(password, bytes.fromhex(salt), int(iterations)), bytes.fromhex(digest))


class Users:
    """The file is read again when it changes: a removed user is out with the next request."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._known: dict[str, tuple[User, str]] = {}
        self._absent = hashed("no password")
        self._read()

    def _read(self) -> None:
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return
            text = self._path.read_bytes()[:_MOST_FILE_BYTES].decode()
        except (OSError, UnicodeDecodeError) as error:
            raise Misused(f"cannot read the users file {self._path}: {reason_of(error)}") from None
        self._known = _parsed(self._path, text)
        self._stamp = stamp

    def find(self, name: str) -> User | None:
        self._read()
        found = self._known.get(name)
        return found[0] if found is not None else None

    def check(self, name: str, password: str) -> User | None:
        """Takes as long for a user that does not exist as for a wrong password."""
        self._read()
        found = self._known.get(name)
        is_right = _matches(password, found[1] if found is not None else self._absent)
        return found[0] if found is not None and is_right else None


def _parsed(path: Path, text: str) -> dict[str, tuple[User, str]]:
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.strip().partition(":")
        role, _, kept = rest.partition(":")
        if not is_role(role) or not _KEPT.fullmatch(kept):
            raise Misused(f"{path}, line {number}: not NAME:ROLE:HASH as `odradek console --add-user` writes it")
        found[name] = (User(name, role), kept)
    return found


def add_user(path: Path, name: str, role: str, password: str) -> None:
    """Adds the user to the file, or replaces the one of that name."""
    if not _NAME.fullmatch(name):
        raise Misused(f"user {name!r}: use only letters, digits, '.', '_', '@' and '-'")
    if len(password) < 8:
        raise Misused("the password is shorter than 8 characters")
    lines = []
    if path.exists():
        _parsed(path, path.read_text(encoding="utf-8"))
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(f"{name}:")]
    lines.append(f"{name}:{role}:{hashed(password)}")
    made = path.with_name(f"{path.name}.new")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    made.replace(path)
