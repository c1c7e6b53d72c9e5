"""Reasons: the words of an error of Python or of a library for a person, without what only its author reads."""

from __future__ import annotations


def reason_of(error: BaseException) -> str:
    """The words of an error. Libraries give bytes (RE2) or a key alone (KeyError); errors of the system have a number and a
    path, which the message names itself.
    """
    inner = getattr(error, "reason", None)
    if isinstance(error, OSError) and isinstance(inner, BaseException):  # urllib's, whose text is in angle brackets
        return reason_of(inner)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    first = error.args[0] if error.args else ""
    if isinstance(error, KeyError):
        return f"{_text(first)} is missing"
    words = _text(first) if isinstance(first, bytes | bytearray) and len(error.args) == 1 else str(error)
    return words.strip() or type(error).__name__


def _text(content: object) -> str:
    return bytes(content).decode(errors="replace") if isinstance(content, bytes | bytearray) else str(content)
