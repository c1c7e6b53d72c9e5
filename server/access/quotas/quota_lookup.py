"""The quota of a client: found by user and client id, by Kafka's order of precedence.

The quota of a client: the most specific one of eight (KIP-55), and the clients that share it.

1. user and client id             5. default user and default client id
2. user and default client id     6. default user
3. user                           7. client id
4. default user and client id     8. default client id

1, 2, 4 and 5 hold for each client id of a user apart, 3 and 6 for all clients of a user together, 7 and 8 for all
clients of that id. For a client without an id only 3 and 6 hold, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ....metadata.client_quotas import CLIENT_ID, USER
from ....metadata.image import QuotaEntity

#: Returns the value of a quota of an entity, or None.
Find = Callable[[QuotaEntity], float | None]
_DEFAULT: str | None = None


class Share(NamedTuple):
    """The clients that have a quota together: the user, the client id, or both; "" stands for any."""

    user: str
    client_id: str


class Quota(NamedTuple):
    share: Share
    bound: float


def both(user: str | None, client_id: str | None) -> QuotaEntity:
    return (CLIENT_ID, client_id), (USER, user)


def quota_of(find: Find, user: str, client_id: str) -> Quota | None:
    """Returns the quota of a client; None if it has none. `find` looks up one kind of quota."""
    of_both = (both(user, client_id), both(user, _DEFAULT))
    of_default_user = (both(_DEFAULT, client_id), both(_DEFAULT, _DEFAULT))
    of_user: QuotaEntity = ((USER, user),)
    any_user: QuotaEntity = ((USER, _DEFAULT),)
    if _has(find, of_both):
        share = Share(user, client_id)
    elif find(of_user) is not None:
        share = Share(user, "")
    elif _has(find, of_default_user):
        share = Share(user, client_id)
    elif find(any_user) is not None:
        share = Share(user, "")
    else:
        share = Share("", client_id)
    if share.user and share.client_id:
        bound = _first(find, (*of_both, *of_default_user))
    elif share.user:
        bound = _first(find, (of_user, any_user))
    elif share.client_id:
        bound = _first(find, (((CLIENT_ID, client_id),), ((CLIENT_ID, _DEFAULT),)))
    else:
        bound = None
    return None if bound is None else Quota(share, bound)


def _has(find: Find, entities: tuple[QuotaEntity, ...]) -> bool:
    return any(find(entity) is not None for entity in entities)


def _first(find: Find, entities: tuple[QuotaEntity, ...]) -> float | None:
    return next((bound for entity in entities if (bound := find(entity)) is not None), None)
