"""Regular expressions of clients: RE2, as in Kafka, since an expensive pattern must not block the broker."""

from __future__ import annotations

from functools import lru_cache

#: Error messages of RE2 in C++ -> those of RE2 in Java.
AS_KAFKA = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "unexpected )",
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class range": "invalid character class range",
    "invalid character class": "invalid character class",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}


class InvalidRegularExpression(Exception):
    """RE2 rejects the expression; the text has the reason."""


@lru_cache(maxsize=256)
def compiled(regex: str):  # type: ignore[no-untyped-def]
    """Returns a function that matches a whole text. Raises InvalidRegularExpression."""
    import re2  # a C++ library that only subscriptions by pattern need

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options).fullmatch
    except re2.error as error:
        reason = error.args[0]
        words = reason.decode() if isinstance(reason, bytes) else str(reason)
        # The library adds the position, Kafka does not.
        raise InvalidRegularExpression(AS_KAFKA.get(words.partition(": ")[0], words)) from error
