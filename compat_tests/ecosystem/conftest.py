"""Chooses the tools of a run: those of `make test`, and those whose folders the command line names."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.ecosystem.tools import BY_FOLDER, HERE


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out a tool that needs a large download, unless it is named: `pytest compat_tests/ecosystem/flink`."""
    if collection_path.parent != HERE or not collection_path.is_dir():
        return None
    tool = BY_FOLDER.get(collection_path.name)
    if tool is None or tool.is_kept:
        return None
    named = [Path(word.split("::")[0]).resolve() for word in config.args]
    return None if any(path == tool.home or tool.home in path.parents for path in named) else True
