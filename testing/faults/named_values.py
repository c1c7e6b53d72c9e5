"""Values that a user names: errors say which names there are, in the user's words."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar, cast

T = TypeVar("T")


def suggested(name: str, names: Sequence[str]) -> str:
    """Returns `: did you mean X?`; "" where no name is similar."""
    close = difflib.get_close_matches(name, names, 1)
    return f": did you mean {close[0]!r}?" if close else ""


def built(kind: Callable[..., T], noun: str, given: Mapping[str, object]) -> T:
    """Makes a dataclass of named values. Raises TypeError, in words of its user, for a name that it does not have, or one
    without a value.
    """
    known = {one.name: one for one in fields(cast("Any", kind)) if not one.name.startswith("_")}
    for name in given:
        if name not in known:
            raise TypeError(f"{noun} has no {name!r}{suggested(name, list(known))}")
    for name, one in known.items():
        if name not in given and one.default is MISSING and one.default_factory is MISSING:
            raise TypeError(f"{noun} needs {name!r}")
    return kind(**given)
