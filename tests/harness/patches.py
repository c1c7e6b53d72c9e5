"""Functions of a module that are replaced for one thread: those of brokers that other tests started go on as they were."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest


def patch_for_this_thread(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, replacement: Callable[..., Any]
) -> None:
    original, thread = getattr(module, name), threading.get_ident()

    def call(*arguments: Any, **options: Any) -> Any:
        function = replacement if threading.get_ident() == thread else original
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, call)
