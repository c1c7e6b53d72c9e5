"""Actions: every change of the console goes through `action`, which checks it, has it done in a thread, and notes it.

In order: the console is not read-only, the user may change things, the form is of this site and carries the session's
token, a wanted confirmation is there. Then the change, a line in the audit log, and a redirect with what was done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from ..client.explained_errors import from_library
from ..client.user_errors import Misused, UserError
from .access import audit
from .access.drafts import Drafts
from .access.guard import is_same_origin
from .access.sessions import FLASH_COOKIE, Sessions, is_token_of
from .addresses import check_length, checked
from .backend import Backend

MOST_FIELDS = 100
#: Fields that are more than a text of Kafka's protocol.
_CONTENTS = {
    "record.produce": ("key", "value", "headers"),
    "schema.register": ("schema",),
    "group.reset": ("offsets",),
    "brokers.balance": ("plan",),
}
#: Changes of one topic, which an editor of it may do, and the field with its name.
_OF_A_TOPIC = {
    "topic.create": "name",
    "topic.config": "topic",
    "topic.alter": "topic",
    "topic.trim": "topic",
    "topic.delete": "topic",
    "record.produce": "topic",
}
_MOST_FORM_BYTES = 4 << 20
P = ParamSpec("P")
T = TypeVar("T")
#: The fields of a form and of its path, by name.
Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Done:
    """The words for the viewer, and the page to go to."""

    words: str
    location: str


Change = Callable[[Backend, Fields], Done]
"""Gets the fields of the form and of the path. Raises UserError."""


def required(form: Fields, name: str) -> str:
    value = form.get(name, "").strip()
    if not value:
        raise Misused(f"{name.replace('_', ' ')} is missing")
    return value


def whole(form: Fields, name: str, most: int, default: int | None = None, least: int = 0) -> int:
    """A whole number of a field. `default` None: the field is required. Raises Misused."""
    text = form.get(name, "").strip()
    return default if not text and default is not None else checked(name, text, least, most)


def confirmed(form: Fields, name: str) -> None:
    """Raises Misused unless the name was typed."""
    if form.get("confirm", "").strip() != name:
        raise Misused(f"nothing was changed: type {name} to confirm")


def action(
    backend: Backend, sessions: Sessions, drafts: Drafts, name: str, change: Change
) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of one kind of change. `name` is how the audit log calls it, as topic.create."""

    async def endpoint(request: Request) -> Response:
        user, address = request.state.user, request.client.host if request.client else ""
        given = {key: unquote(str(value)) for key, value in request.path_params.items()}

        def note(outcome: str, details: Fields) -> None:
            audit.note(user.name, address, name, outcome, details, backend.cluster_name)

        def refused(words: str) -> Response:
            note(f"refused: {words}", given)
            return PlainTextResponse(f"{words}\n", 403)

        if backend.settings.read_only:
            return refused("The console is read-only.")
        field = _OF_A_TOPIC.get(name)
        if not user.may_change and (field is None or not user.may_change_some):
            return refused(f"User {user.name} has read-only access.")
        if int(request.headers.get("content-length") or _MOST_FORM_BYTES + 1) > _MOST_FORM_BYTES:
            return PlainTextResponse("The form is too large.\n", 413)
        async with request.form(max_files=0, max_fields=MOST_FIELDS, max_part_size=_MOST_FORM_BYTES) as fields:
            form = {key: str(value) for key, value in fields.items()} | given
        if not is_same_origin(request.headers) or not is_token_of(request.state.session, form.get("csrf", "")):
            return refused("The form belongs to another session: reload the page and try again.")
        if not user.may_change and not user.may_change_topic(form.get(str(field), "").strip()):
            return refused(f"User {user.name} may not change this topic.")
        result = await run_in_threadpool(_noted, within(_CONTENTS.get(name, ()), change), backend, form, note)
        base = request.scope.get("root_path", "")
        if isinstance(result, Done):
            location, flash = base + result.location, sessions.flash(result.words, "good")
        else:
            path = str(request.scope["path"]).removeprefix(base)
            draft = drafts.keep(request.state.session.token, path, form)
            location, flash = _back(request), sessions.flash(str(result), "bad", draft)
        response = RedirectResponse(location, 303)
        response.set_cookie(
            FLASH_COOKIE, flash, max_age=60, httponly=True, samesite="strict", secure=backend.settings.is_tls
        )
        return response

    return endpoint


def _noted(change: Change, backend: Backend, form: Fields, note: Callable[[str, Fields], None]) -> Done | UserError:
    """Runs a change, and notes its outcome in the same thread: however the request ends, a change has its line."""
    try:
        result = attempted(change, backend, form)
    except Exception as error:
        # The text of an error may quote what the form has, such as a password.
        note(f"failed: {type(error).__name__}; it may have been done", form)
        raise
    finally:
        backend.poller.poll_soon()
    note(f"failed: {result}" if isinstance(result, UserError) else f"done: {result.words}", form)
    return result


def within(contents: Sequence[str], change: Change) -> Change:
    """The change, which raises Misused for a field that is too long, save `contents`."""

    def checked_change(backend: Backend, form: Fields) -> Done:
        for name, value in form.items():
            if name not in contents:
                check_length(name, value)
        return change(backend, form)

    return checked_change


def attempted(step: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | UserError:
    """Returns what the step returns, or its error where the viewer can do something about it."""
    try:
        return step(*arguments, **named)
    except UserError as error:
        return error
    except Exception as error:
        known = from_library(error)
        if known is None:
            raise
        return known


def _back(request: Request) -> str:
    """The page that the form was on; browsers send it within a site."""
    from urllib.parse import urlsplit

    found = urlsplit(request.headers.get("referer", "/"))
    path = found.path if found.path.startswith("/") and not found.path.startswith("//") else "/"
    return f"{path}?{found.query}" if found.query else path
