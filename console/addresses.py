"""Addresses of pages: their paths with any names, and the parts and numbers of one."""

from __future__ import annotations

from urllib.parse import quote, unquote

from starlette.requests import Request

from ..client.user_errors import Misused


def here(request: Request) -> str:
    """The path of the page, as pages write addresses: quoted, without the part that chooses one of several clusters."""
    return quote(str(request.scope["path"]).removeprefix(request.scope.get("root_path", "")), safe="/")


def number_of(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.lstrip("-").isdecimal() and len(text) <= 19):
        raise Misused(f"{name} must be a number, not {text[:40]!r}")
    return int(text)


def path_to(*names: object) -> str:
    """An address whose parts may hold any character. `name_in` reads them.

    Servers read %2F as a slash, and browsers read a part of dots as a folder: these are quoted twice.
    """
    return "".join(f"/{quote(_escaped(str(name)), safe='')}" for name in names)


def _escaped(name: str) -> str:
    escaped = name.replace("%", "%25").replace("/", "%2F")
    return escaped.replace(".", "%2E") if name in (".", "..") else escaped


def name_in(request: Request, key: str) -> str:
    """A part of the address that `path_to` made."""
    return unquote(request.path_params[key])
