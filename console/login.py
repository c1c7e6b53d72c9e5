"""Logins with a password and by an issuer, and logout. Failed logins of one address are limited, and all are noted."""

from __future__ import annotations

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from ..client.login_limit import LoginLimit
from ..client.user_errors import UserError
from .access import audit
from .access.guard import CALLBACK, END, LOGIN, START, is_same_origin
from .access.sessions import SESSION_COOKIE, Sessions, is_token_of
from .access.single_sign_on import LoginRefused
from .backend import Backend
from .rendering import Renderer

_MOST_BYTES = 16 << 10
#: Passwords that are hashed at the same time, on a thread that pages do not need, and those that are checked or wait. A hash
#: takes a tenth of a second of CPU.
_HASHING_THREADS = 1
_MOST_CHECKING = 32


class Login:
    def __init__(self, backend: Backend, sessions: Sessions, renderer: Renderer) -> None:
        self._backend = backend
        self._sessions = sessions
        self._renderer = renderer
        self._limit = LoginLimit()
        self._hashing = CapacityLimiter(_HASHING_THREADS)
        self._checking = 0

    def routes(self) -> list[Route]:
        made = [
            Route(LOGIN, self.form, methods=["GET"]),
            Route(LOGIN, self.enter, methods=["POST"]),
            Route("/logout", self.leave, methods=["POST"]),
        ]
        if self._backend.single_sign_on is not None:
            made += [
                Route(START, self.begin, methods=["GET"]),
                Route(CALLBACK, self.come_back, methods=["GET"]),
                Route(END, self.leave_issuer, methods=["GET"]),
            ]
        return made

    async def form(self, request: Request) -> Response:
        return self._shown(has_left="left" in request.query_params)

    def _shown(self, words: str = "", status: int = 200, has_left: bool = False) -> Response:
        session = self._sessions.begin("")
        response = self._renderer.login(session.token, words, status, has_left)
        self._renderer.keep(response, session)
        return response

    # ---- with a password

    async def enter(self, request: Request) -> Response:
        address = _address(request)
        if int(request.headers.get("content-length") or _MOST_BYTES + 1) > _MOST_BYTES:
            return self._shown("The form is too large.", 413)
        async with request.form(max_files=0, max_fields=5) as form:
            name, password, token = (str(form.get(key, "")) for key in ("name", "password", "csrf"))
        if not is_same_origin(request.headers) or not is_token_of(request.state.session, token):
            return self._shown("The form belonged to another session: try again.", 403)
        if self._checking >= _MOST_CHECKING:
            return self._shown("Too many logins at once: try again.", 429)
        if not self._limit.begin(address):
            audit.note(name, address, "login", "refused: too many failures", {})
            return self._shown("Too many failed logins: wait a minute.", 429)
        users, user = self._backend.users, None
        if users is not None:
            self._checking += 1
            try:
                user = await anyio.to_thread.run_sync(users.check, name, password, limiter=self._hashing)
            except UserError as error:
                audit.note(name, address, "login", f"failed: {error}", {})
                return self._shown(f"Logins with a password fail now: {error}.", 503)
            finally:
                self._checking -= 1
        if user is None:
            audit.note(name, address, "login", "failed", {})
            return self._shown("Wrong name or password.", 401)
        self._limit.succeeded(address)
        audit.note(user.name, address, "login", "done", {})
        self._sessions.end(request.state.session)
        response = RedirectResponse("/", 303)
        self._renderer.keep(response, self._sessions.begin(user.name))
        return response

    async def leave(self, request: Request) -> Response:
        async with request.form(max_files=0, max_fields=5) as form:
            token = str(form.get("csrf", ""))
        session = request.state.session
        if not is_token_of(session, token):
            return PlainTextResponse("The form belongs to another session.\n", 403)
        self._sessions.end(session)
        response = RedirectResponse("/login?left=issuer" if session.role else "/login", 303)
        response.delete_cookie(SESSION_COOKIE)
        return response

    # ---- by an issuer

    async def begin(self, request: Request) -> Response:
        assert self._backend.single_sign_on is not None
        try:
            return await self._backend.single_sign_on.begin(request)
        except LoginRefused as error:
            return self._shown(str(error), 502)

    async def come_back(self, request: Request) -> Response:
        assert self._backend.single_sign_on is not None
        address = _address(request)
        if not self._limit.begin(address):
            audit.note("", address, "login", "refused: too many failures", {})
            return self._shown("Too many failed logins: wait a minute.", 429)
        try:
            user, details = await self._backend.single_sign_on.end(request)
        except LoginRefused as error:
            audit.note("", address, "login", f"failed: {error}", {})
            return self._shown(str(error), 403)
        self._limit.succeeded(address)
        audit.note(user.name, address, "login", "done", details)
        self._sessions.end(request.state.session)
        # A page, not a redirect: browsers send the session's cookie with no request that another site began.
        response = self._renderer.entered()
        self._renderer.keep(response, self._sessions.begin(user.name, user.role))
        return response

    async def leave_issuer(self, request: Request) -> Response:
        assert self._backend.single_sign_on is not None
        try:
            response = await self._backend.single_sign_on.leave(request)
        except LoginRefused as error:
            return self._shown(str(error), 502)
        return response if response is not None else self._shown("The issuer has no logout.", 404)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
