"""The report of a link, as its group commits it: why topics are not followed and groups not copied.

It is the text of the offset 0 of `__consumer_offsets-0`, which exists where a group does, so every Kafka tool can show the
group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import zip_longest

#: The place of the commit.
REPORT_TOPIC, REPORT_PARTITION = "__consumer_offsets", 0
#: Limit of the text, in bytes: a commit's has 4,096 (`offset.metadata.max.bytes`).
_MOST_BYTES = 4000
_MOST_REASON = 200
#: The text has room for no more: the shortest one takes six bytes.
_MOST_REASONS = _MOST_BYTES // 6


@dataclass(frozen=True, slots=True)
class LinkReport:
    """`error`: why the source cannot be read, "" where it can. `refused` and `skipped`: topics and groups, by their names
    here, with the reasons. `access`: rules, quotas and users that are not followed, with the reasons. `more`: how many
    further ones the text had no room for.
    """

    error: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    access: Mapping[str, str] = field(default_factory=dict)
    more: int = 0

    def lines(self) -> list[str]:
        """The report in words, a line for each reason."""
        lines = [f"the source cannot be read: {self.error}"] if self.error else []
        lines += [f"topic {name} is not followed: {reason}" for name, reason in self.refused.items()]
        lines += [f"offsets of group {name} are not copied: {reason}" for name, reason in self.skipped.items()]
        lines += [f"{name} is not followed: {reason}" for name, reason in self.access.items()]
        return [*lines, f"and {self.more} more"] if self.more else lines

    def text(self) -> str:
        """The text of the commit, with as many reasons as it has room for: the first ones of each kind."""
        kinds = {"refused": self.refused, "skipped": self.skipped, "access": self.access}
        shown: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
        more = self.more + sum(map(len, kinds.values()))
        error = self.error[:_MOST_REASON]
        left = _MOST_BYTES - len(_json({"link": {"error": error, **shown, "more": more}}))
        for kind, name, reason in _in_turn(kinds):
            left -= len(_json({name: reason}))  # a brace more than the commas
            if left < 0:
                break
            shown[kind][name] = reason
            more -= 1
        if not shown["access"]:
            del shown["access"]  # earlier releases read no such field
        return _json({"link": {"error": error, **shown, "more": more}})


def _in_turn(kinds: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str, str]]:
    """(kind, name, reason): those that a text may have room for, by names, one of each kind in turn."""
    firsts = (
        [(kind, name, reason[:_MOST_REASON]) for name, reason in nsmallest(_MOST_REASONS, reasons.items())]
        for kind, reasons in kinds.items()
    )
    for some in zip_longest(*firsts):
        yield from filter(None, some)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def parse_report(text: str) -> LinkReport:
    """Raises ValueError for a text of another kind."""
    try:
        fields = json.loads(text)["link"]
        report = LinkReport(**fields)
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not the report of a link: {error}") from None
    texts = [report.error]
    for reasons in (report.refused, report.skipped, report.access):
        if not isinstance(reasons, dict):
            raise ValueError("not the report of a link: its reasons are no object")
        texts += [*reasons, *reasons.values()]
    if not all(isinstance(one, str) for one in texts) or type(report.more) is not int:
        raise ValueError("not the report of a link: a reason must be a text")
    return report
