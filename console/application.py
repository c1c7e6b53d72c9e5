"""The web application: its routes, the order of its guards, and how errors become pages."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..cli.client.errors import DENIED, NOT_FOUND, UNREACHABLE, CommandError, from_library
from ..cli.options import MISUSED
from .access import audit
from .access.guard import Guard, is_same_origin
from .access.sessions import SESSION_COOKIE, LoginLimit, Sessions, is_token_of
from .actions import action
from .backend import Backend
from .pages.table import ACTIONS, PAGES
from .rendering import Renderer
from .views.parts import Page, Text

#: Requests that wait for the cluster at the same time; each has a thread.
_MOST_THREADS = 8
_STATUS = {NOT_FOUND: 404, UNREACHABLE: 503, DENIED: 403, MISUSED: 400}
_MOST_LOGIN_BYTES = 16 << 10

View = Callable[[Backend, Request], "Page | Response"]


def application(backend: Backend) -> Starlette:
    sessions = Sessions()
    renderer = Renderer(backend, sessions)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _MOST_THREADS
        backend.start()
        yield
        await run_in_threadpool(backend.stop)

    routes: list[Any] = [Route(path, _page(backend, renderer, view)) for path, view in PAGES.items()]
    routes += [
        Route(path, action(backend, sessions, name, change), methods=["POST"])
        for path, (name, change) in ACTIONS.items()
    ]
    login = _Login(backend, sessions, renderer)
    routes += [
        Route("/login", login.form, methods=["GET"]),
        Route("/login", login.enter, methods=["POST"]),
        Route("/logout", login.leave, methods=["POST"]),
        Route("/health", _health),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    guard = Middleware(Guard, settings=backend.settings, users=backend.users, sessions=sessions)

    async def not_found(request: Request, error: Exception) -> Response:
        if getattr(request.state, "user", None) is None:
            return PlainTextResponse("Not found.\n", 404)
        return renderer.page(request, Page("Not found", [Text("There is no such page.", "bad")]), 404)

    return Starlette(routes=routes, middleware=[guard], lifespan=lifespan, exception_handlers={404: not_found})


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


def _page(backend: Backend, renderer: Renderer, view: View) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a page: the view runs in a thread, since it may ask the cluster."""

    async def endpoint(request: Request) -> Response:
        backend.poller.note_viewer()
        page, status = await run_in_threadpool(_viewed, backend, request, view)
        return page if isinstance(page, Response) else renderer.page(request, page, status)

    return endpoint


def _viewed(backend: Backend, request: Request, view: View) -> tuple[Page | Response, int]:
    try:
        return view(backend, request), 200
    except Exception as error:
        known = error if isinstance(error, CommandError) else from_library(error)
        if known is None:
            raise
        return Page("That did not work", [Text(str(known), "bad")]), _STATUS.get(known.status, 502)


class _Login:
    """The login page. Failed logins of one address are limited, and all are noted."""

    def __init__(self, backend: Backend, sessions: Sessions, renderer: Renderer) -> None:
        self._backend = backend
        self._sessions = sessions
        self._renderer = renderer
        self._limit = LoginLimit()

    async def form(self, request: Request) -> Response:
        return self._shown()

    def _shown(self, words: str = "", status: int = 200) -> Response:
        session = self._sessions.begin("")
        response = self._renderer.login(session.token, words, status)
        self._renderer.keep(response, session)
        return response

    async def enter(self, request: Request) -> Response:
        address = request.client.host if request.client else ""
        if int(request.headers.get("content-length") or _MOST_LOGIN_BYTES + 1) > _MOST_LOGIN_BYTES:
            return self._shown("The form is too large.", 413)
        async with request.form(max_files=0, max_fields=5) as form:
            name, password, token = (str(form.get(key, "")) for key in ("name", "password", "csrf"))
        if not is_same_origin(request.headers) or not is_token_of(request.state.session, token):
            return self._shown("The form was not of this session: try again.", 403)
        if self._limit.is_exceeded(address):
            audit.note(name, address, "login", "refused: too many failures", {})
            return self._shown("Too many failed logins: wait a minute.", 429)
        users = self._backend.users
        user = await run_in_threadpool(users.check, name, password) if users is not None else None
        if user is None:
            self._limit.note_failure(address)
            audit.note(name, address, "login", "failed", {})
            return self._shown("Wrong name or password.", 401)
        audit.note(user.name, address, "login", "done", {})
        response = RedirectResponse("/", 303)
        self._renderer.keep(response, self._sessions.begin(user.name))
        return response

    async def leave(self, request: Request) -> Response:
        async with request.form(max_files=0, max_fields=5) as form:
            token = str(form.get("csrf", ""))
        if not is_token_of(request.state.session, token):
            return PlainTextResponse("The form is not of this session.\n", 403)
        response = RedirectResponse("/login", 303)
        response.delete_cookie(SESSION_COOKIE)
        return response
