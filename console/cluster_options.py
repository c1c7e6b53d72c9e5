"""Options of the command that are of one cluster: in a console of several, CONTEXT=VALUE names it.

Without that, each cluster would show the connectors, the checkpoints, the schemas and the metrics of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..client.user_errors import Misused


def of_cluster(option: str, values: Sequence[str], cluster: str, clusters: Sequence[str]) -> list[str]:
    """The values for one of the clusters. Raises Misused for a value of which it is not known whose it is."""
    found = []
    for value in values:
        owner, equals, rest = value.partition("=")
        if not equals or owner not in clusters:
            if len(clusters) > 1:
                raise Misused(
                    f"{option} {value}: a console of several clusters needs {option} CONTEXT={value}, with one of"
                    f" {', '.join(clusters)}"
                )
            owner, rest = cluster, value
        if owner == cluster:
            found.append(rest)
    return found


def one_of_cluster(option: str, values: Sequence[str], cluster: str, clusters: Sequence[str]) -> str | None:
    """The same, of an option that a cluster has once; None without it."""
    found = of_cluster(option, values, cluster, clusters)
    if len(found) > 1:
        raise Misused(f"{option} is given more than once{f' for {cluster}' if cluster else ''}")
    return found[0] if found else None
