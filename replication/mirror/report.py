"""The report of a link, as its group commits it: why topics are not followed and groups not copied.

It is the text of the offset 0 of `__consumer_offsets-0`, which exists where a group does, so every Kafka tool can show the
group.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

#: The place of the commit.
REPORT_TOPIC, REPORT_PARTITION = "__consumer_offsets", 0
#: Limit of the text, in bytes: a commit's has 4,096 (`offset.metadata.max.bytes`).
_MOST_BYTES = 4000
_MOST_REASON = 200


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
        """The text of the commit, with as many reasons as it has room for."""
        refused = {name: reason[:_MOST_REASON] for name, reason in sorted(self.refused.items())}
        skipped = {name: reason[:_MOST_REASON] for name, reason in sorted(self.skipped.items())}
        access = {name: reason[:_MOST_REASON] for name, reason in sorted(self.access.items())}
        more = self.more
        while True:
            fields = {"error": self.error[:_MOST_REASON], "refused": refused, "skipped": skipped, "more": more}
            if access:  # earlier releases read no such field
                fields["access"] = access
            text = json.dumps({"link": fields}, separators=(",", ":"))
            if len(text) <= _MOST_BYTES:
                return text
            max((refused, skipped, access), key=len).popitem()
            more += 1


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
