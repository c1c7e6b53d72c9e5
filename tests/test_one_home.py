"""Constants of Kafka's protocol have one home each, and a module imports a name once: for run time or for types."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.harness.facts import kept_facts
from tests.harness.sources import files, tree_of

#: Folders whose files are no part of the product.
OUTSIDE = ("tests", "compat_tests", "benchmarks", "docs", "examples", "spark_examples")
#: Values of the wire and of files. A module that needs one imports it.
CONSTANTS = frozenset(
    {
        "ALL_IN_SYNC", "ANONYMOUS", "CRC_FROM", "DEBUGGING_CONSUMER", "EARLIEST", "EARLIEST_LOCAL",
        "EARLIEST_PENDING_UPLOAD", "FINAL_EPOCH", "GROUP", "HEADER_BYTES",
        "INITIAL_EPOCH", "JOIN_EPOCH", "LAST_EPOCH", "LATEST",
        "LATEST_TIERED", "LEADER_UNCHANGED", "LEAST_OLD_LENGTH", "LEAVE_EPOCH", "LEAVE_STATIC_EPOCH", "LOCK_FILE",
        "LOG_OVERHEAD", "MAGIC", "MAGIC_AT", "MAX_TIMESTAMP", "META_PROPERTIES", "NO_LEADER_EPOCH", "NO_NODE", "NO_OFFSET",
        "NO_PRODUCER_EPOCH", "NO_PRODUCER_ID", "NO_SEQUENCE", "PREFERRED", "PRODUCER_AT", "READ_COMMITTED",
        "READ_UNCOMMITTED", "SHARE", "TRANSACTION", "UNCLEAN", "UNINITIALIZED_OFFSET", "UNKNOWN_OFFSET",
        "ZERO_UUID", "Buffer",
    }
)  # fmt: skip


def assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Returns name and value of each assignment of a module; of a tuple to a tuple, those of its parts."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    names = (element.id for element in target.elts if isinstance(element, ast.Name))
                    yield from zip(names, node.value.elts, strict=False)


def constants_in(tree: ast.Module) -> list[tuple[str, str]]:
    """Returns name and value of the constants of the list that a module declares, also as a private name."""
    named = ((name.lstrip("_"), ast.unparse(value)) for name, value in assignments(tree))
    return [(name, value) for name, value in named if name in CONSTANTS]


def imported_twice(tree: ast.Module) -> set[str]:
    """Returns names that a module imports at run time and again under `if TYPE_CHECKING`, and `pass` where that is empty."""
    at_run_time, for_types, empty = set(), set(), set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            at_run_time |= _names(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.body:
                if isinstance(statement, ast.Import | ast.ImportFrom):
                    for_types |= _names(statement)
            if all(isinstance(statement, ast.Pass) for statement in node.body):
                empty.add("pass")
    return (at_run_time & for_types) | empty


def _names(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {alias.asname or alias.name for alias in node.names}


def product() -> list[str]:
    return [file for file in files("*.py") if file.split("/")[0] not in OUTSIDE]


@kept_facts
def constants_of(file: str) -> list[tuple[str, str]]:
    return constants_in(tree_of(file))


@kept_facts
def names_imported_twice(file: str) -> list[str]:
    return sorted(imported_twice(tree_of(file)))


def test_constants_of_the_protocol_have_one_home() -> None:
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in product():
        for name, value in constants_of(file):
            homes[name, value].append(file)
    assert len(homes) > len(CONSTANTS) / 2, "the files of the product were not found"
    assert {name: declared for name, declared in homes.items() if len(declared) > 1} == {}


def test_no_module_imports_a_name_at_run_time_and_again_for_types() -> None:
    twice = {file: names_imported_twice(file) for file in product()}
    assert {file: names for file, names in twice.items() if names} == {}


def test_constants_are_found_under_private_names_and_in_tuples() -> None:
    tree = ast.parse("_READ_COMMITTED = 1\nEARLIEST, LATEST = -2, -1\nBuffer: object = bytes\nOTHER = 1\n")
    assert constants_in(tree) == [("READ_COMMITTED", "1"), ("EARLIEST", "-2"), ("LATEST", "-1"), ("Buffer", "bytes")]


def test_names_imported_twice_and_empty_blocks_are_found() -> None:
    text = "from a import b, c\nif TYPE_CHECKING:\n    from a import c\n    from d import e\n"
    assert imported_twice(ast.parse(text)) == {"c"}
    assert imported_twice(ast.parse("if TYPE_CHECKING:\n    pass\n")) == {"pass"}
