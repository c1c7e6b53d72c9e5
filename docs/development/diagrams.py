"""Draws the packages from the imports of the code: `python docs/development/diagrams.py`.

A package stands above those that it imports, and an arrow leads to each that is not reached through another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import grimp

HERE = Path(__file__).parent
Graph = dict[str, set[str]]

_BOX_WIDTH, _BOX_HEIGHT, _GAP, _RISE, _MARGIN = 132, 34, 18, 74, 16
_STYLE = (
    "text{font:14px sans-serif;fill:#1c2733}rect{fill:#eef3f8;stroke:#4a6785;rx:5}"
    "path{fill:none;stroke:#7b8fa3;stroke-width:1.2;marker-end:url(#tip)}"
)


def imports(root: str, names: Iterable[str], modules: grimp.ImportGraph) -> Graph:
    """Returns the direct imports among packages (or modules) below `root`, by their names there."""
    chosen = {f"{root}.{name}": name for name in names}
    found: Graph = {name: set() for name in chosen.values()}

    def owner(module: str) -> str | None:
        return next((name for path, name in chosen.items() if module == path or module.startswith(f"{path}.")), None)

    for importer in modules.modules:
        source = owner(importer)
        if source is None:
            continue
        for imported in modules.find_modules_directly_imported_by(importer):
            target = owner(imported)
            if target is not None and target != source:
                found[source].add(target)
    return found


def ranks(graph: Graph) -> dict[str, int]:
    """Returns the height of each node: 0 for one that imports none. Raises ValueError for a cycle."""
    found: dict[str, int] = {}

    def rank(name: str, path: tuple[str, ...]) -> int:
        if name in path:
            raise ValueError(f"an import cycle: {' -> '.join((*path, name))}")
        if name not in found:
            found[name] = 1 + max((rank(below, (*path, name)) for below in graph[name]), default=-1)
        return found[name]

    for name in graph:
        rank(name, ())
    return found


def reduced(graph: Graph) -> Graph:
    """Returns the graph without edges that a longer path replaces."""

    def reach(name: str) -> set[str]:
        return {name}.union(*(reach(below) for below in graph[name]))

    return {
        name: {below for below in targets if not any(below in reach(other) for other in targets - {below})}
        for name, targets in graph.items()
    }


def svg(graph: Graph) -> str:
    """Returns the drawing."""
    heights = ranks(graph)
    rows: dict[int, list[str]] = {}
    for name in sorted(graph):
        rows.setdefault(heights[name], []).append(name)
    widest = max(map(len, rows.values()))
    width = 2 * _MARGIN + widest * (_BOX_WIDTH + _GAP) - _GAP
    height = 2 * _MARGIN + len(rows) * _RISE - (_RISE - _BOX_HEIGHT)
    places = dict(_places(rows, width))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#7b8fa3;stroke:none;marker-end:none"/></marker></defs>',
        f'<rect x="0" y="0" width="{width}" height="{height}" style="fill:#fff;stroke:none"/>',
    ]
    for name, targets in sorted(reduced(graph).items()):
        parts += [_arrow(places[name], places[target]) for target in sorted(targets)]
    for name, (x, y) in places.items():
        parts.append(f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"/>')
        parts.append(f'<text x="{x + _BOX_WIDTH // 2}" y="{y + 22}" text-anchor="middle">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _places(rows: Mapping[int, list[str]], width: int) -> Iterable[tuple[str, tuple[int, int]]]:
    top = max(rows)
    for height, names in sorted(rows.items(), reverse=True):
        taken = len(names) * (_BOX_WIDTH + _GAP) - _GAP
        for index, name in enumerate(names):
            yield name, ((width - taken) // 2 + index * (_BOX_WIDTH + _GAP), _MARGIN + (top - height) * _RISE)


def _arrow(source: tuple[int, int], target: tuple[int, int]) -> str:
    x1, y1 = source[0] + _BOX_WIDTH // 2, source[1] + _BOX_HEIGHT
    x2, y2 = target[0] + _BOX_WIDTH // 2, target[1]
    bend = (y2 - y1) // 2
    return f'<path d="M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"/>'


def drawings() -> dict[str, str]:
    """Returns the drawings by file name."""
    modules = grimp.build_graph("odradek", include_external_packages=False, exclude_type_checking_imports=False)
    below = {root: sorted(child.rpartition(".")[2] for child in modules.find_children(root)) for root in _ROOTS}
    layers = [name for name in below["odradek"] if modules.find_children(f"odradek.{name}")]
    packages = [name for name in below["odradek.server"] if modules.find_children(f"odradek.server.{name}")]
    packages += ["services", "node", "broker", "publisher"]
    return {
        "layers.svg": svg(imports("odradek", layers, modules)),
        "server.svg": svg(imports("odradek.server", packages, modules)),
        "storage.svg": svg(imports("odradek.storage", below["odradek.storage"], modules)),
        "groups.svg": svg(imports("odradek.coordinator.groups", below["odradek.coordinator.groups"], modules)),
    }


_ROOTS = ("odradek", "odradek.server", "odradek.storage", "odradek.coordinator.groups")


if __name__ == "__main__":
    for name, text in drawings().items():
        (HERE / name).write_text(text, encoding="utf-8")
