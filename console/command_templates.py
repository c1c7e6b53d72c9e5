"""Commands that do the same as a form or a page, as templates: a script fills in what the viewer types."""

from __future__ import annotations

import shlex

from .backend import Backend


def command_of(backend: Backend, *words: str, template: str = "") -> str:
    """A command as the template of a form: fixed words quoted, then the template, then the words that name the cluster."""
    options = shlex.join(backend.command_options)
    return f"odradek {shlex.join(words)}{template} {options}"
