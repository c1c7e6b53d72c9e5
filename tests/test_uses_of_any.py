"""The uses of `Any` in the product, by package: they may become fewer, and not more.

python -m tests.test_uses_of_any            prints the counts
python -m tests.test_uses_of_any cli        prints those of the files of a package
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable

from tests.harness.facts import kept_facts
from tests.harness.sources import files, nodes_of

#: The most uses of each package; lower the number of a package that has fewer. Packages without a number have none.
MOST = {
    "admin": 1,
    "archive": 11,
    "cli": 4,
    "client": 4,
    "columns": 7,
    "query": 1,
    "coordinator": 37,
    "metadata": 6,
    "protocol": 24,
    "records": 1,
    "replication": 17,
    "server": 105,
    "spark": 11,
    "storage": 2,
    "testing": 14,
    "tiers": 3,
}
#: Folders whose files are no part of the product.
OUTSIDE = ("tests", "compat_tests", "benchmarks", "docs", "examples", "spark_examples")


def uses_in(nodes: Iterable[ast.AST]) -> int:
    """Returns how often annotations and aliases name `Any`. An import is no use."""
    names = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute))
    return sum((node.id if isinstance(node, ast.Name) else node.attr) == "Any" for node in names)


@kept_facts
def uses_of(file: str) -> int:
    return uses_in(nodes_of(file))


def uses_by_file() -> dict[str, int]:
    return {file: uses_of(file) for file in files("*.py") if file.split("/")[0] not in OUTSIDE}


def uses_by_package() -> Counter[str]:
    counts: Counter[str] = Counter()
    for file, uses in uses_by_file().items():
        counts[file.split("/")[0]] += uses
    return +counts


def test_any_in_an_annotation_an_alias_and_a_module_is_counted() -> None:
    source = (
        "import typing\nfrom typing import Any\nJson = dict[str, Any]\ndef f(one: Any, two: typing.Any) -> int: ...\n"
    )
    assert uses_in(ast.walk(ast.parse(source))) == 3


def test_no_package_has_more_uses_of_any_than_before() -> None:
    counts = uses_by_package()
    assert sum(counts.values()) > 0, "the files of the product were not found"
    more = {
        package: f"{uses}, at most {MOST.get(package, 0)}"
        for package, uses in counts.items()
        if uses > MOST.get(package, 0)
    }
    assert not more, (
        f"name the type in place of `Any`; `python -m tests.test_uses_of_any PACKAGE` lists the files: {more}"
    )


def test_product_has_fewer_than_250_uses_of_any() -> None:
    assert sum(MOST.values()) < 250


def main() -> None:
    package = sys.argv[1] if len(sys.argv) > 1 else None
    if package is None:
        for name, uses in sorted(uses_by_package().items()):
            print(f"{uses:5} {name}")
        print(f"{sum(uses_by_package().values()):5} in all")
        return
    found = {file: uses for file, uses in uses_by_file().items() if uses and file.split("/")[0] == package}
    for file, uses in sorted(found.items(), key=lambda one: -one[1]):
        print(f"{uses:5} {file}")


if __name__ == "__main__":
    main()
