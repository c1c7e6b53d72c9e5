"""A link: another cluster, and which of its topics and groups this one follows. Parsed from configs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ...metadata.mirror_keys import (
    ACLS,
    BOOTSTRAP,
    CUTS_DIVERGED,
    GROUPS,
    LINGER,
    PREFIX,
    QUOTAS,
    REPLICATION_FACTOR,
    SHARE_GROUPS,
    SHOWN,
    SOURCE_PREFIX,
    STATE,
    SWITCHED,
    THROTTLE,
    TOPICS,
    is_made,
    split_key,
)
from .progress import GROUP_PREFIX

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PORT = re.compile(r"\d{1,5}")
#: The pause between two Fetches: of a link whose properties have none, and the longest one. A switch waits for it.
LINGER_MS, MOST_LINGER_MS = 20, 1000


class InvalidLink(ValueError):
    """A link that cannot be used; the text names the property, never a value that may be secret."""


class LinkState(Enum):
    """The state of a link that an operator wants."""

    ACTIVE = "active"
    PAUSED = "paused"
    #: Nothing is fetched any more. The link may still go on.
    STOPPED = "stopped"
    #: Transactions whose ends were not mirrored are aborted. The next step makes the topics writable.
    PROMOTED = "promoted"


@dataclass(frozen=True, slots=True)
class Link:
    """`bootstrap`: (host, port) pairs. `client`: properties of the client, secrets among them, so they are in no repr."""

    name: str
    bootstrap: tuple[tuple[str, int], ...]
    topics: re.Pattern[str]
    groups: re.Pattern[str] | None = None
    state: LinkState = LinkState.ACTIVE
    #: In front of the names of topics and groups here; two sources in one cluster need one.
    prefix: str = ""
    #: In front of the names of topics and groups at the source: a reversed link leads those with a prefix back.
    source_prefix: str = ""
    #: Replicas of topics that are made here; -1 for the brokers' default.
    replication_factor: int = -1
    #: Limit of the fetches of each broker, in bytes per second; 0 for none.
    throttle: int = 0
    #: The least time between two Fetches of a broker to one of the source's, in which records gather there.
    linger_ms: int = LINGER_MS
    #: Whether a log that differs from the source's is cut to what both have.
    cuts_diverged: bool = False
    #: Whether rules about followed topics and groups, quotas, and start offsets of followed share groups are followed.
    follows_acls: bool = False
    follows_quotas: bool = False
    follows_share_groups: bool = False
    client: Mapping[str, str] = field(default_factory=dict, repr=False)

    def follows_topic(self, name: str) -> bool:
        """Whether a topic of the source is followed, by its name there. Internal topics never are."""
        return not name.startswith("__") and self._matches(self.topics, name)

    def follows_group(self, name: str) -> bool:
        """Whether committed offsets of a group of the source are copied. Those of links never are."""
        return not name.startswith(GROUP_PREFIX) and self.groups is not None and self._matches(self.groups, name)

    def _matches(self, pattern: re.Pattern[str], name: str) -> bool:
        """Whether a pattern, which is of names without prefixes, matches a name there."""
        has_prefix = name.startswith(self.source_prefix)
        return has_prefix and pattern.fullmatch(name.removeprefix(self.source_prefix)) is not None

    def name_here(self, name: str) -> str:
        return self.prefix + name.removeprefix(self.source_prefix)

    def name_there(self, name: str) -> str:
        """The source's name of a topic or group that is followed here."""
        return self.source_prefix + name.removeprefix(self.prefix)


def properties_of_links(configs: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The properties of each link in the dynamic configs of all brokers. What links note themselves is left out."""
    found: dict[str, dict[str, str]] = {}
    for key, value in configs.items():
        name_and_property = split_key(key)
        if name_and_property is not None and not is_made(name_and_property[1]):
            found.setdefault(name_and_property[0], {})[name_and_property[1]] = value
    return found


def parse_link(name: str, properties: Mapping[str, str]) -> Link:
    """Raises InvalidLink."""
    if not _NAME.fullmatch(name):
        raise InvalidLink(f"{name[:80]!r} cannot be the name of a link: use at most 64 letters, digits, _ and -")
    if name.startswith(SWITCHED):
        raise InvalidLink(f"{name!r} cannot be the name of a link: {SWITCHED} marks topics that were switched from")
    bootstrap = tuple(_addresses(properties.get(BOOTSTRAP, "")))
    if not bootstrap:
        raise InvalidLink(f"link {name} has no {BOOTSTRAP}")
    groups = properties.get(GROUPS, "")
    return Link(
        name=name,
        bootstrap=bootstrap,
        topics=_pattern(name, TOPICS, properties.get(TOPICS, "")),
        groups=_pattern(name, GROUPS, groups) if groups else None,
        state=_state(name, properties.get(STATE, LinkState.ACTIVE.value)),
        prefix=_prefix(name, properties.get(PREFIX, "")),
        source_prefix=_prefix(name, properties.get(SOURCE_PREFIX, "")),
        replication_factor=_factor(name, properties.get(REPLICATION_FACTOR, "-1")),
        throttle=_throttle(name, properties.get(THROTTLE, "0")),
        linger_ms=_linger(name, properties.get(LINGER, str(LINGER_MS))),
        cuts_diverged=_flag(name, CUTS_DIVERGED, properties.get(CUTS_DIVERGED, "false")),
        follows_acls=_flag(name, ACLS, properties.get(ACLS, "false")),
        follows_quotas=_flag(name, QUOTAS, properties.get(QUOTAS, "false")),
        follows_share_groups=_flag(name, SHARE_GROUPS, properties.get(SHARE_GROUPS, "false")),
        client={key: value for key, value in properties.items() if key not in SHOWN},
    )


def _addresses(text: str) -> Iterable[tuple[str, int]]:
    for one in filter(None, map(str.strip, text.split(","))):
        host, _, port = one.rpartition(":")
        if not host or not _PORT.fullmatch(port) or not 0 < int(port) < 1 << 16:
            raise InvalidLink(f"{BOOTSTRAP} has {one[:80]!r}, which is not HOST:PORT")
        yield host.strip("[]"), int(port)


def _prefix(name: str, text: str) -> str:
    if text and not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", text):
        raise InvalidLink(f"the prefix of link {name} has characters that names of topics have not")
    return text


def _pattern(name: str, property_: str, text: str) -> re.Pattern[str]:
    if not text:
        raise InvalidLink(f"link {name} has no {property_}: a regular expression for whole names, such as 'orders.*'")
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidLink(f"{property_} of link {name} is not a regular expression: {error}") from None


def _state(name: str, text: str) -> LinkState:
    try:
        return LinkState(text)
    except ValueError:
        states = ", ".join(one.value for one in LinkState)
        raise InvalidLink(f"{STATE} of link {name} is {text[:40]!r}, not one of {states}") from None


def _factor(name: str, text: str) -> int:
    if text != "-1" and not (text.isdecimal() and 0 < int(text) < 1 << 15):
        raise InvalidLink(f"{REPLICATION_FACTOR} of link {name} is {text[:40]!r}, not a number")
    return int(text)


def _throttle(name: str, text: str) -> int:
    if not (text.isdecimal() and len(text) < 16):
        raise InvalidLink(f"{THROTTLE} of link {name} is {text[:40]!r}, not a number of bytes")
    return int(text)


def _linger(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 5 and int(text) <= MOST_LINGER_MS):
        raise InvalidLink(f"{LINGER} of link {name} is {text[:40]!r}, not milliseconds from 0 to {MOST_LINGER_MS}")
    return int(text)


def _flag(name: str, property_: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidLink(f"{property_} of link {name} is {text[:40]!r}, not true or false")
    return text == "true"
