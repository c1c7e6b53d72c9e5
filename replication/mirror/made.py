"""Rules and quotas that a link has made here, by a mark of each. The link deletes these where the source has them no more.

The marks are dynamic configs of all brokers beside the link's properties (`mirror.link.NAME.made.KIND.NUMBER`): they
outlive each broker, and end with the link. A mark is written before what it stands for is made: a link that crashes
between the two deletes nothing of others, and leaves nothing of its own.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from ...metadata.mirror_keys import MADE, link_key

#: Characters of a mark, of six bits each.
_MARK = 12
_MARKS = re.compile(rf"(?:[A-Za-z0-9_-]{{{_MARK}}})*")
#: Marks in one config: before version 4 of DescribeConfigs a value has 32,767 bytes at most.
_MOST_IN_CONFIG = 2_500


class MadeKind(StrEnum):
    """Kinds of things that a link makes here."""

    ACLS = "acls"
    QUOTAS = "quotas"


def mark_of(fields: Iterable[str]) -> str:
    """The mark of a thing with these fields."""
    digest = hashlib.sha256("\0".join(fields).encode()).digest()
    return base64.urlsafe_b64encode(digest)[:_MARK].decode()


def read_marks(configs: Mapping[str, str | None], link: str, kind: MadeKind) -> frozenset[str]:
    """The marks of a link in the dynamic configs of all brokers."""
    prefix = _prefix(link, kind)
    texts = [value for key, value in configs.items() if key.startswith(prefix) and value]
    return frozenset(
        text[at : at + _MARK] for text in texts if _MARKS.fullmatch(text) for at in range(0, len(text), _MARK)
    )


def changed_configs(
    configs: Mapping[str, str], link: str, kind: MadeKind, marks: Collection[str]
) -> dict[str, str | None]:
    """The changes of configs that leave these marks; None deletes one."""
    prefix, ordered = _prefix(link, kind), sorted(marks)
    portions = range(0, len(ordered), _MOST_IN_CONFIG)
    wanted = {f"{prefix}{number}": "".join(ordered[at : at + _MOST_IN_CONFIG]) for number, at in enumerate(portions)}
    gone = [key for key in configs if key.startswith(prefix) and key not in wanted]
    return {key: value for key, value in wanted.items() if configs.get(key) != value} | dict.fromkeys(gone)


def _prefix(link: str, kind: MadeKind) -> str:
    return link_key(link, f"{MADE}{kind}.")
