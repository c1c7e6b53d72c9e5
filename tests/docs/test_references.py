"""Comments, docstrings and pages name files that exist, and exceptions that exist."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from posixpath import normpath

import pytest

from tests.harness.facts import kept_facts
from tests.harness.prose import comments_and_docstrings, statements_of
from tests.harness.sources import files, nodes_of, text_of

#: A file, with folders or without, or folders with a slash at the end. Patterns, URLs and absolute paths do not fit.
_FILE = r"(?:[\w.-]+/)*[\w-]+\.(?:py|md|c|h|toml|yml)"
_FOLDER = r"(?:[\w-]+/)+"
_PATH = re.compile(rf"(?<![\w/.~$<>*{{}}:@=%…\\-])(?:({_FILE})(?![\w/*({{<-]|\.\w)|({_FOLDER})(?![\w/*({{<$…-]|\.\w))")
_ENDING = re.compile(r"\.(?:py|md|c|h|toml|yml)")
_FENCE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
#: The links of pages have their own test in test_docs.py.
_TARGET = re.compile(r"\]\([^)\s]+\)")
_CLASS = r"`?(?:[a-z_]+\.)*[A-Z][A-Za-z0-9_]*[a-z][\w.]*`?"
_RAISES = re.compile(rf"\b[Rr]aises\s+({_CLASS}(?:(?:,\s+(?:and\s+|or\s+)?|\s+(?:and|or)\s+){_CLASS})*)")
#: Files that a user, a library or a build writes, by the file that names them.
FOREIGN_PATHS = {
    ("compat_tests/allow_list.py", "test_file.py"),
    ("compat_tests/results.py", "test_file.py"),
    ("docs/development/releasing.md", "dist/"),
    ("docs/generate.py", "docs/reference/"),
    ("docs/generate.py", "python.md"),
    ("docs/specialists/security-kerberos.md", "s/"),
    ("docs/spark.md", "job.py"),
    ("docs/troubleshooting.md", "producer/sender.py"),
    ("testing/pytest_plugin.py", "conftest.py"),
}
#: Exceptions of client libraries, by the page that names them.
FOREIGN_CLASSES = {
    ("compat_tests/kafka_python/FINDINGS.md", "KafkaConnectionError"),
    ("docs/specialists/damage.md", "CorruptRecordError"),
    ("docs/specialists/damage.md", "KafkaException"),
}


@cache
def prose() -> tuple[tuple[str, int, str], ...]:
    """Returns file, line and text of each comment, docstring and page. The changelog names files of its time."""
    code = [(file, line, text) for file in files("*.py") for line, text in comments_and_docstrings(file)]
    return (*code, *((file, 1, page(file)) for file in files("*.md") if file != "CHANGELOG.md"))


def page(file: str) -> str:
    """Returns the text of a page, with empty lines for its blocks of code, and without the targets of its links."""
    return _TARGET.sub("]", _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text_of(file)))


def paths(text: str) -> Iterator[tuple[int, str]]:
    """Yields the line within the text, and the path, of each path in it."""
    if "/" not in text and not _ENDING.search(text):
        return  # most comments; the whole pattern is tried at each character
    for match in _PATH.finditer(text):
        yield text[: match.start()].count("\n"), match[1] or match[2]


def exceptions(text: str) -> Iterator[tuple[int, str]]:
    """Yields the line within the text, and the name, of each class that the text names after "raises"."""
    for match in _RAISES.finditer(text) if "aises" in text else ():
        for name in re.findall(_CLASS, match[1]):
            yield text[: match.start()].count("\n"), name.strip("`").rstrip(".").removeprefix("odradek.").split(".")[0]


@cache
def tree() -> frozenset[str]:
    """Returns all files, and all folders with a slash at the end."""
    names = files("*")
    folders = {f"{folder}/" for name in names for folder in PurePosixPath(name).parents}
    return frozenset({*names, *folders})


@cache
def by_name() -> dict[str, list[str]]:
    """Returns the files and folders of each last part of a path."""
    found: dict[str, list[str]] = {}
    for path in tree():
        found.setdefault(PurePosixPath(path).name, []).append(path)
    return found


def resolves(file: str, path: str) -> bool:
    """Returns whether the path exists from the folder of the file, a parent of it, or a folder below it.

    A page names files of the package that its section is about, so there the end of a path is enough.
    """
    path = path.removeprefix("odradek/") or "./"
    folder = PurePosixPath(file).parent
    slash = "/" if path.endswith("/") else ""
    if any(normpath(above / path) + slash in tree() for above in (folder, *folder.parents)):
        return True
    below = "" if path.endswith(".md") or file.endswith(".md") else f"{folder}/".removeprefix("./")
    named = by_name().get(PurePosixPath(path).name, ())
    return any(name.startswith(below) and name.endswith(f"/{path}") for name in named)


@kept_facts
def names_of(file: str) -> frozenset[str]:
    """Returns the classes, imports and assigned names of a module, and the modules that it imports from."""
    found: set[str] = set()
    for node in nodes_of(file):
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update((name.asname or name.name).split(".")[0] for name in node.names)
            found.add(str(getattr(node, "module", "")).split(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


@kept_facts
def public_classes_of(file: str) -> list[str]:
    classes = [node.name for node in statements_of(file) if isinstance(node, ast.ClassDef)]
    return [name for name in classes if not name.startswith("_")]


@cache
def public_classes() -> frozenset[str]:
    return frozenset(name for file in files("*.py") for name in public_classes_of(file))


def is_known(file: str, name: str) -> bool:
    """Returns whether the module, the project or Python has a class of this name."""
    return hasattr(builtins, name) or name in public_classes() or (file.endswith(".py") and name in names_of(file))


def test_paths_in_comments_docstrings_and_pages_exist() -> None:
    named = [(file, line + below, path) for file, line, text in prose() for below, path in paths(text)]
    assert len(named) > 500
    assert [
        f"{file}:{line}: {path}"
        for file, line, path in named
        if (file, path) not in FOREIGN_PATHS and not resolves(file, path)
    ] == []
    assert FOREIGN_PATHS - {(file, path) for file, _, path in named} == set(), "no longer named"


def test_exceptions_in_comments_docstrings_and_pages_exist() -> None:
    named = [(file, line + below, name) for file, line, text in prose() for below, name in exceptions(text)]
    assert len(named) > 300
    assert [
        f"{file}:{line}: {name}"
        for file, line, name in named
        if (file, name) not in FOREIGN_CLASSES and not is_known(file, name)
    ] == []
    assert FOREIGN_CLASSES - {(file, name) for file, _, name in named} == set(), "no longer named"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See `effects.py`, and base/group.py.", ["effects.py", "base/group.py"]),
        ("Below coordinator/share/. Then (log.py:12).", ["coordinator/share/", "log.py"]),
        ("https://host/a/b.py, /etc/a.py, <api>.py, *.py, name.python and either/or", []),
    ],
)
def test_paths_are_found_in_a_sentence(text: str, expected: list[str]) -> None:
    assert [path for _, path in paths(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Raises InvalidConfig, OSError or\n    `ValueError`. Kafka does, too.",
            ["InvalidConfig", "OSError", "ValueError"],
        ),
        ("It raises ssl.SSLError for TLS.", ["ssl"]),
        ("Raises the limit, as Java does.", []),
    ],
)
def test_exceptions_are_found_in_a_sentence(text: str, expected: list[str]) -> None:
    assert [name for _, name in exceptions(text)] == expected


@pytest.mark.parametrize("path", ["effects.py", "opening.py", "coordinator/share/", "api/config_changes.py"])
def test_paths_of_other_packages_and_of_missing_files_do_not_resolve(path: str) -> None:
    assert not resolves("server/partitions/append_queue.py", path)


def test_missing_exceptions_are_unknown() -> None:
    assert not is_known("replication/controller/topic_creation.py", "RefusedRequest")
    assert is_known("replication/controller/topic_creation.py", "RequestError")
