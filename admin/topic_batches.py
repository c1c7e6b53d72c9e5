"""Creation and deletion of topics, in requests for some of them each.

Each function returns names of what was changed, or with `dry_run` of what would be. `advance` is called for each topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..client.explained_errors import from_library
from ..client.user_errors import UserError
from ..client.wording import counted
from ..protocol.errors import ErrorCode
from . import topic_changes
from .errors import ResponseError
from .topic_changes import NewTopic, TopicResult
from .topics import describe_topics, hint_for_unknown

if TYPE_CHECKING:
    from .session import Admin

#: Topics in one request.
_AT_ONCE = 100


def create_topics(
    admin: Admin,
    names: Sequence[str],
    options: NewTopic,
    *,
    if_not_exists: bool,
    dry_run: bool,
    advance: Callable[[], object] = lambda: None,
) -> list[str]:
    """With `dry_run` the broker validates and creates nothing."""
    outcome = _Outcome("created")
    for some in _batches(names):
        for topic in topic_changes.create_topics(admin, dict.fromkeys(some, options), validate_only=dry_run):
            advance()
            if not (if_not_exists and topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS):
                outcome.add(topic.name, topic.error_code, topic.error_message)
    if outcome.done and not dry_run:
        # Other brokers learn of a topic a moment later: the next command may go to one of them.
        topic_changes.wait_for_topics(admin, outcome.done)
    return outcome.result()


class _Outcome:
    """The outcome of a request for each of several topics: some may be done although others have errors."""

    def __init__(self, word: str) -> None:
        self._word = word
        self.done: list[str] = []
        self._errors: list[UserError] = []

    def add(self, name: str, code: int, message: str | None = None, hint: str = "") -> None:
        if code:
            error = from_library(ResponseError(f"topic {name}", code, message, hint))
            assert error is not None
            self._errors.append(error)
        else:
            self.done.append(name)

    def result(self) -> list[str]:
        """Raises UserError for the first error; the line names what was done all the same."""
        if not self._errors:
            return self.done
        words = [str(error) for error in self._errors[:3]]
        if len(self._errors) > 3:
            words.append(f"and {counted(len(self._errors) - 3, 'more error')}")
        if self.done:
            words.append(f"{self._word} nevertheless: {', '.join(self.done)}")
        raise UserError("; ".join(words), self._errors[0].kind)


def delete_topics(
    admin: Admin,
    names: Sequence[str],
    *,
    if_exists: bool,
    dry_run: bool,
    advance: Callable[[], object] = lambda: None,
) -> list[str]:
    outcome = _Outcome("deleted")
    for some in _batches(names):
        if dry_run:
            results = [TopicResult(one.name, one.error_code) for one in describe_topics(admin, some)]
        else:
            results = topic_changes.delete_topics(admin, some)
        for result in results:
            advance()
            if not (if_exists and result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                # The brokers' words for a topic that does not exist are about a partition.
                message = None if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else result.error_message
                hint = hint_for_unknown(admin, result.name, result.error_code)
                outcome.add(result.name, result.error_code, message, hint)
    return outcome.result()


def _batches(names: Sequence[str]) -> list[list[str]]:
    return [list(names[start : start + _AT_ONCE]) for start in range(0, len(names), _AT_ONCE)]
