"""The guard before every request: names of hosts, logins, and headers that keep other sites out.

A page of another site can make a browser send requests to the console. It cannot read a token (CSRF), frame a page, run a
script in it (Content-Security-Policy), or come by a name that it points at this machine (DNS rebinding).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...client.user_errors import UserError
from ..settings import Settings
from .sessions import SESSION_COOKIE, Session, Sessions
from .users import ADMIN, User, Users

if TYPE_CHECKING:
    from starlette.responses import Response


#: Paths that are reached without a login: of the health, of logins with a password, and of logins by an issuer.
HEALTH, LOGIN = "/health", "/login"
START, CALLBACK, END = "/login/oidc", "/login/oidc/callback", "/login/oidc/end"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_OPEN = frozenset((HEALTH, LOGIN, START, CALLBACK, END))
_STATIC = "/static/"
#: Characters of a path: a name in it is at most a text of Kafka's protocol.
_MOST_PATH = 8192
_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]{1,5})?")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class Guard:
    """Sets `request.state.user` and `.session`. Sends 421 for a foreign name, and leads to /login without a session."""

    def __init__(self, app: ASGIApp, settings: Settings, users: Users | None, sessions: Sessions) -> None:
        self._app = app
        self._users = users
        self._has_logins = settings.has_logins
        self._sessions = sessions
        # Behind a login any name will do: a rebound name has no session.
        names = (*_LOOPBACK_NAMES, settings.host, *settings.allowed_hosts)
        self._hosts = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        denial = self._denial(request)
        response: ASGIApp = denial if denial is not None else self._app
        await response(scope, receive, _with_headers(send, scope["path"]))

    def _denial(self, request: Request) -> Response | None:
        if not self._has_logins and _host_of(request.headers) not in self._hosts:
            return PlainTextResponse("The console does not serve this host name; allow it with --allowed-host.\n", 421)
        if len(request.scope["path"]) > _MOST_PATH:
            return PlainTextResponse("The address is too long: names in it have fewer characters.\n", 414)
        session = self._sessions.read(request.cookies.get(SESSION_COOKIE))
        try:
            user = self._user(session)
        except UserError as error:  # the file of users cannot be read
            return PlainTextResponse(f"{error}\n", 503)
        request.state.session, request.state.user = session, user
        if user is None and not _is_open(request.scope["path"]):
            if request.method == "GET" and "hx-request" not in request.headers:
                return RedirectResponse("/login", 303)
            return PlainTextResponse("Log in first.\n", 401, {"HX-Redirect": "/login"})
        return None

    def _user(self, session: Session | None) -> User | None:
        """Without logins, every client of this machine's loopback is an administrator."""
        if not self._has_logins:
            return User("local", ADMIN)
        if session is None or not session.user:
            return None
        if session.role:  # the issuer's; the file may have a user of the same name
            return User(session.user, session.role)
        return self._users.find(session.user) if self._users is not None else None


def _host_of(headers: Headers) -> str:
    """Returns the name in the Host header without its port; "" for a malformed one."""
    found = _HOST.fullmatch(headers.get("host", "").lower())
    return (found["ipv6"] or found["name"]) if found is not None else ""


def _is_open(path: str) -> bool:
    """Takes the path of the scope, by which requests are routed: the request's address also has the client's Host header."""
    return path in _OPEN or path.startswith(_STATIC)


def _with_headers(send: Send, path: str) -> Send:
    is_static = path.startswith(_STATIC)

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers["Cache-Control"] = "max-age=3600" if is_static else "no-store"
        await send(message)

    return sent


def is_same_origin(headers: Headers) -> bool:
    """Returns whether the form is of this site, by the browser's headers."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()
