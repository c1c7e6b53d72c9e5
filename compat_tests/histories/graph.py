"""A directed graph: its strongly connected components, by Tarjan's algorithm without recursion, and short cycles in them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator

Node = Hashable


class Graph:
    def __init__(self, edges: Iterable[tuple[Node, Node]]) -> None:
        self.after: dict[Node, list[Node]] = defaultdict(list)
        for source, target in edges:
            self.after[source].append(target)

    def components(self) -> Iterator[set[Node]]:
        """Yields each set of two nodes or more that reach one another."""
        number: dict[Node, int] = {}
        low: dict[Node, int] = {}
        stack: list[Node] = []
        on_stack: set[Node] = set()
        for root in list(self.after):
            if root in number:
                continue
            work: list[tuple[Node, Iterator[Node]]] = []
            self._enter(root, number, low, stack, on_stack, work)
            while work:
                node, targets = work[-1]
                target = next(targets, None)
                if target is None:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == number[node]:
                        yield from self._leave(node, stack, on_stack)
                elif target not in number:
                    self._enter(target, number, low, stack, on_stack, work)
                elif target in on_stack:
                    low[node] = min(low[node], number[target])

    def _enter(
        self,
        node: Node,
        number: dict[Node, int],
        low: dict[Node, int],
        stack: list[Node],
        on_stack: set[Node],
        work: list[tuple[Node, Iterator[Node]]],
    ) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        on_stack.add(node)
        work.append((node, iter(self.after.get(node, ()))))

    @staticmethod
    def _leave(node: Node, stack: list[Node], on_stack: set[Node]) -> Iterator[set[Node]]:
        component: set[Node] = set()
        while node not in component:
            component.add(stack.pop())
        on_stack -= component
        if len(component) > 1:
            yield component

    def cycle(self, start: Node, within: set[Node]) -> list[Node]:
        """Returns a shortest cycle through `start`."""
        came: dict[Node, Node] = {}
        waiting = deque([start])
        while waiting:
            node = waiting.popleft()
            for target in self.after.get(node, ()):
                if target == start:
                    path = [node]
                    while path[-1] != start:
                        path.append(came[path[-1]])
                    return path[::-1]
                if target in within and target not in came:
                    came[target] = node
                    waiting.append(target)
        return [start]
