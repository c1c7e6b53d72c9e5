"""JSON of others: a value of thousands of levels is an error like other bad values, wherever the project parses JSON."""

from __future__ import annotations

import ast

from tests.harness.facts import kept_facts
from tests.harness.sources import files, tree_of

OUTSIDE = ("tests/", "compat_tests/", "benchmarks/", "docs/", "examples/", "spark_examples/")
CATCH_ALL = {"RecursionError", "RuntimeError", "Exception", "BaseException"}
#: Calls whose callers have the handler, and those of texts that the project or an operator wrote for itself.
ELSEWHERE = {
    "cli/backup/manifests.py": {"_decode"},  # its caller's handler
    "cli/backup/restoring.py": {"_own_topics"},  # a journal of its own
    "records/avro_input.py": {"value"},  # `_explained_encode`
    "records/content_encoder.py": {"_encode_json"},  # `_explained_encode`
    "cli/records/row_input.py": {"_headers"},  # `record_of`
    "archive/parquet.py": {"text", "read"},  # own texts
    "archive/table_process.py": {"of_line", "_topics"},  # lines of the broker that started it
    "spark/latest.py": {"_checked_owner", "_merged"},  # properties of its own table
    "storage/files/clean_replicas.py": {"read_clean_replicas"},  # behind a checksum
    "server/access/authentication/oauth_assertions.py": {"_templates"},  # the operator's template
    "extras.py": {"_address_of"},  # pip's note
}


@kept_facts
def parsing(name: str) -> list[tuple[str, int, bool]]:
    """The function and the line of each call of json.loads, and whether a handler around it takes a RecursionError."""
    found: list[tuple[str, int, bool]] = []

    def walk(node: ast.AST, function: str, is_handled: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function, is_handled = node.name, False
        if isinstance(node, ast.Try):
            names = {
                one.id
                for handler in node.handlers
                for one in ast.walk(handler.type or node)
                if isinstance(one, ast.Name)
            }
            for one in node.body:
                walk(one, function, is_handled or bool(names & CATCH_ALL))
            for one in (*node.handlers, *node.orelse, *node.finalbody):
                walk(one, function, is_handled)
            return
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.loads", "json.load"):
            found.append((function, node.lineno, is_handled))
        for one in ast.iter_child_nodes(node):
            walk(one, function, is_handled)

    walk(tree_of(name), "", False)
    return found


def test_deeply_nested_json_is_handled_wherever_it_is_parsed() -> None:
    wrong, count = [], 0
    for name in files("*.py"):
        if name.startswith(OUTSIDE):
            continue
        for function, line, is_handled in parsing(name):
            count += 1
            if not is_handled and function not in ELSEWHERE.get(name, ()):
                wrong.append(f"{name}:{line} in {function}")
    assert count > 30
    assert wrong == []
