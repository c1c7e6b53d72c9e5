"""Names of classes: no package declares one twice."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.harness.facts import kept_facts
from tests.harness.sources import files, tree_of

#: Folders whose files are no part of the product.
OUTSIDE = ("tests", "compat_tests", "benchmarks", "docs", "examples", "spark_examples")


def names_of_classes(tree: ast.Module) -> list[str]:
    """Returns the names of all classes of a file, those in functions and classes included."""
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


@kept_facts
def classes_of(file: str) -> list[str]:
    return names_of_classes(tree_of(file))


def test_classes_in_functions_and_classes_are_found() -> None:
    source = "class A:\n    class B: ...\ndef f():\n    class C: ...\n"
    assert sorted(names_of_classes(ast.parse(source))) == ["A", "B", "C"]


def test_no_package_declares_a_class_name_twice() -> None:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in files("*.py"):
        package = file.split("/")[0]
        if package not in OUTSIDE:
            for name in classes_of(file):
                places[package, name].append(file)
    assert places, "the files of the product were not found"
    twice = {name: declared for (_, name), declared in places.items() if len(declared) > 1}
    assert not twice, f"name what differs: {twice}"
