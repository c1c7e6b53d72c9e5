"""A file in YAML that describes a link to another cluster: the options of `odradek mirror create`, by their names."""

from __future__ import annotations

from pathlib import Path

from ..client.user_errors import Misused
from ..metadata.mirror_keys import (
    ACLS,
    BOOTSTRAP,
    CUTS_DIVERGED,
    GROUPS,
    LINGER,
    PREFIX,
    QUOTAS,
    REPLICATION_FACTOR,
    SHARE_GROUPS,
    THROTTLE,
    TOPICS,
)

#: The keys of the file, and the properties of a link.
_KEYS = {
    "from": BOOTSTRAP,
    "topics": TOPICS,
    "groups": GROUPS,
    "prefix": PREFIX,
    "replication-factor": REPLICATION_FACTOR,
    "cut-diverged": CUTS_DIVERGED,
    "throttle": THROTTLE,
    "linger": LINGER,
    "acls": ACLS,
    "quotas": QUOTAS,
    "share-groups": SHARE_GROUPS,
}
#: The key of the properties of the link's client, such as `security.protocol`.
_CLIENT = "client"


def read_link_file(path: Path) -> dict[str, str]:
    """The properties of a link. Raises Misused; a value, which may be secret, is in no message."""
    import yaml  # type: ignore[import-untyped]  # one command reads YAML

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Misused(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        raise Misused(f"{path} is not YAML" + (f": line {mark.line + 1}" if mark is not None else "")) from None
    if not isinstance(found, dict):
        raise Misused(f"{path} has no keys such as from and topics")
    client = found.pop(_CLIENT, None) or {}
    unknown = sorted(str(key) for key in found.keys() - _KEYS.keys())
    if unknown:
        raise Misused(f"{path} has {', '.join(unknown)}: known are {', '.join([*_KEYS, _CLIENT])}")
    if not isinstance(client, dict):
        raise Misused(f"{path}: client must have properties")
    properties = {str(key): _text(path, str(key), value) for key, value in client.items()}
    return properties | {_KEYS[key]: _text(path, key, value) for key, value in found.items() if value is not None}


def _text(path: Path, key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    raise Misused(f"{path}: {key} must be a text, a number, true or false")
