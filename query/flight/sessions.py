"""Sessions of users: a login at the brokers with the user's own name and password, and the token that stands for it.

Each job of a session logs in again with the same password, so the brokers decide about every statement, and a user who is
removed there reads nothing more.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ...admin.connection import Connection
from ...client.error_kinds import ErrorKind
from ...client.explained_errors import from_library
from ...client.login_limit import LoginLimit
from ...client.security_options import security_of
from ...client.user_errors import Misused, UserError

#: Seconds after the last call, and after the login, at which a session ends.
_IDLE_S, _LIFETIME_S = 3600.0, 12 * 3600.0
#: Sessions at the same time, and those of one user; a new one ends the oldest.
_MOST_SESSIONS, _MOST_OF_USER = 1_000, 50
#: Bytes of a header with a name and a password.
_MOST_HEADER = 4096
_CREDENTIALS = frozenset(("sasl.jaas.config", "sasl.username", "sasl.password"))
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_BASIC, _BEARER = "basic", "bearer"


class NotLoggedIn(UserError):
    """The caller has no session, or no right to begin one."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorKind.DENIED)


@dataclass(slots=True, repr=False)
class Session:
    """`user` is "" where the brokers have no logins; `token` then, too. No repr: it has a password."""

    user: str
    properties: dict[str, str]
    token: str
    began: float
    used: float

    def is_over(self, now: float) -> bool:
        return now - self.used > _IDLE_S or now - self.began > _LIFETIME_S


class Sessions:
    """All sessions of a server. They end with the process."""

    def __init__(self, connection: Connection) -> None:
        """`connection`: how the server reaches the brokers; a login of its own is not used. Raises Misused."""
        self._timeout_s = connection.timeout_s
        self._properties = without_credentials(connection.properties)
        self.has_logins = connection_has_logins(connection.properties)
        self._active: dict[str, Session] = {}
        #: The token of the session that a name and a password began, by a keyed hash of both.
        self._tokens: dict[bytes, str] = {}
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._limit = LoginLimit()

    def begin(self, authorization: str | None, address: str) -> Session:
        """A new session by a header `Basic ...`. Raises NotLoggedIn, and UserError where no broker answers."""
        if not self.has_logins:
            return self.find(authorization, address)
        if _scheme(authorization) != _BASIC:
            raise NotLoggedIn("log in with a user and a password of the brokers")
        user, password = _basic(authorization or "")
        return self._logged_in(user, password, address)

    def find(self, authorization: str | None, address: str) -> Session:
        """The session of a call, begun if its header has a name and a password. Raises as `begin`."""
        scheme = _scheme(authorization)
        if not self.has_logins:
            if scheme:
                raise NotLoggedIn("the brokers of this server have no logins: connect without user and password")
            now = time.monotonic()
            return Session("", self._properties, "", now, now)
        if scheme == _BEARER:
            return self._by_token((authorization or "").partition(" ")[2].strip())
        if scheme != _BASIC:
            raise NotLoggedIn("log in with a user and a password of the brokers")
        user, password = _basic(authorization or "")
        with self._lock:
            token = self._tokens.get(self._digest(user, password), "")
        try:
            return self._by_token(token)
        except NotLoggedIn:
            return self._logged_in(user, password, address)

    def end(self, session: Session) -> None:
        with self._lock:
            self._active.pop(session.token, None)

    def _by_token(self, token: str) -> Session:
        now = time.monotonic()
        with self._lock:
            session = self._active.get(token)
            if session is None or session.is_over(now):
                self._active.pop(token, None)
                raise NotLoggedIn("the session has ended: log in again")
            session.used = now
            return session

    def _logged_in(self, user: str, password: str, address: str) -> Session:
        if not self._limit.begin(address):
            raise NotLoggedIn("too many failed logins of this address: wait a minute")
        properties = {**self._properties, "sasl.username": user, "sasl.password": password}
        try:
            Connection(properties, self._timeout_s).reach()
        except Exception as error:
            known = error if isinstance(error, UserError) else from_library(error)
            if known is None:
                raise
            if known.kind is ErrorKind.DENIED:
                raise NotLoggedIn("the brokers do not let this user in: check name and password") from None
            self._limit.succeeded(address)
            raise UserError(str(known), known.kind) from None
        self._limit.succeeded(address)
        return self._added(user, password, properties)

    def _added(self, user: str, password: str, properties: dict[str, str]) -> Session:
        now = time.monotonic()
        session = Session(user, properties, secrets.token_urlsafe(32), now, now)
        with self._lock:
            for token in [token for token, one in self._active.items() if one.is_over(now)]:
                del self._active[token]
            of_user = [token for token, one in self._active.items() if one.user == user]
            if len(of_user) >= _MOST_OF_USER:
                del self._active[of_user[0]]
            elif len(self._active) >= _MOST_SESSIONS:
                del self._active[next(iter(self._active))]
            self._active[session.token] = session
            self._tokens = {digest: token for digest, token in self._tokens.items() if token in self._active}
            self._tokens[self._digest(user, password)] = session.token
        return session

    def _digest(self, user: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{len(user)} {user}{password}".encode(), hashlib.sha256)


def without_credentials(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without the server's own name and password, where users log in with theirs."""
    return {name: value for name, value in properties.items() if name not in _CREDENTIALS}


def connection_has_logins(properties: Mapping[str, str]) -> bool:
    """Whether the brokers have logins with a password. Raises Misused for logins of another kind."""
    try:
        security = security_of({**properties, "sasl.username": "user", "sasl.password": "password"})
    except ValueError as error:
        raise Misused(str(error)) from None
    if security.has_sasl and security.mechanism not in _MECHANISMS:
        raise Misused(f"--serve takes logins by {', '.join(_MECHANISMS)}: set sasl.mechanism to one of these")
    return security.has_sasl


def _scheme(authorization: str | None) -> str:
    return (authorization or "").partition(" ")[0].lower()


def _basic(authorization: str) -> tuple[str, str]:
    text = authorization.partition(" ")[2].strip()
    if len(text) > _MOST_HEADER:
        raise NotLoggedIn("the name and the password are too long")
    try:
        padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)  # clients in Go leave the padding out
        user, colon, password = base64.b64decode(padded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        user = colon = password = ""
    if not colon or not user:
        raise NotLoggedIn("the header authorization has no name and password")
    return user, password
