"""Options and arguments of client commands that are paths."""

from __future__ import annotations

import typing
from pathlib import Path

import typer


def path(given: str | Path) -> Path:
    """The path of an option or argument. An empty text, which a shell makes of an unset variable, is a mistake: its path
    would be the current folder. Raises typer.BadParameter.
    """
    text = str(given)
    if not text.strip():
        raise typer.BadParameter("an empty text is not a path; the current folder is `.`")
    if "\0" in text:
        raise typer.BadParameter("no path has a NUL character")
    return Path(text)


def checked_path(annotation: object) -> object:
    """The annotation of a parameter of a command, whose option or argument parses paths by `path`."""
    if _has_path(annotation):
        for option in typing.get_args(annotation)[1:]:
            option.parser = path
    return annotation


def _has_path(kind: object) -> bool:
    return kind is Path or any(_has_path(one) for one in typing.get_args(kind))
