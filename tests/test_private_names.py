"""The commands, the console, the test kit and the client use no private name of a library: the syntax trees show it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tests.harness.facts import kept_facts
from tests.harness.sources import files, nodes_of

PACKAGES = ("admin", "archive", "cli", "client", "columns", "console", "records", "testing", "tiers")
#: Names that begin with an underscore and are documented, or of the standard library without another way.
ALLOWED = {
    "_replace": "of a NamedTuple",
    "_asdict": "of a NamedTuple",
    "_fields": "of a NamedTuple",
    "_exit": "os._exit",
    "_PARTITION_EOF": "confluent_kafka.KafkaError has its local codes under such names",
    "_actions": "argparse has no list of a parser's options",
    "_SubParsersAction": "argparse has no other name of the type",
    "_log_destroy_pending": "asyncio has no other way to end the tasks of a crashed node in silence",
    "_register_atexit": "threading has no other place before concurrent.futures, which ends its threads at exit",
}


def defined(nodes: Iterable[ast.AST]) -> set[str]:
    """Private names that the module defines: of its functions, classes, attributes of `self` and fields."""
    names = set()
    for one in nodes:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(one.name)
        elif isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
            if isinstance(one.value, ast.Name) and one.value.id in ("self", "cls", "made", "control"):
                names.add(one.attr)
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            names.add(one.target.id)
    return names


def private_names(nodes: Iterable[ast.AST]) -> list[tuple[int, str]]:
    """Private attributes of objects other than `self`, and private names that are imported or looked up by text."""
    found = []
    for one in nodes:
        if isinstance(one, ast.Attribute) and _is_private(one.attr):
            if not (isinstance(one.value, ast.Name) and one.value.id in ("self", "cls")):
                found.append((one.lineno, one.attr))
        elif isinstance(one, ast.ImportFrom) and not one.level:
            found += [(one.lineno, alias.name) for alias in one.names if _is_private(alias.name)]
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in ("getattr", "setattr"):
            name = one.args[1] if len(one.args) > 1 else None
            if isinstance(name, ast.Constant) and _is_private(str(name.value)):
                found.append((one.lineno, str(name.value)))
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@kept_facts
def defined_in(file: str) -> set[str]:
    return defined(nodes_of(file))


@kept_facts
def private_names_in(file: str) -> list[tuple[int, str]]:
    return private_names(nodes_of(file))


def test_no_private_name_of_a_library_is_used() -> None:
    found = files(*(f"{package}/*.py" for package in PACKAGES))
    own = {name for path in found for name in defined_in(path)}
    foreign = [
        f"{path}:{line}: {name}"
        for path in found
        for line, name in private_names_in(path)
        if name not in own and name not in ALLOWED
    ]
    assert foreign == []


def test_a_private_name_of_a_library_is_found() -> None:
    nodes = ast.walk(ast.parse("admin._manager.run\nfrom kafka import _hidden\ngetattr(admin, '_net')"))
    assert {name for _, name in private_names(nodes)} == {"_manager", "_hidden", "_net"}
