"""Errors of the administrator have the subject, words and the name of the code, for every code."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from odradek.admin.errors import ResponseError, check
from odradek.client.errors import CoordinatorError, LoginRejected, NoResponse, NotSupported, RequestFailed, UnknownNode
from odradek.client.login import login_rejection
from odradek.client.sasl import PasswordLogin
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateResponse

LETTERS = "ab .:_(é"
CODES = st.sampled_from([one for one in ErrorCode if one])


@given(st.text(LETTERS, min_size=1, max_size=20), CODES, st.one_of(st.none(), st.text(LETTERS, max_size=40)))
def test_text_has_subject_words_and_name(subject: str, code: ErrorCode, message: str | None) -> None:
    text = str(ResponseError(subject, code, message))
    assert text.startswith(f"{subject}: ") and text.endswith(f" ({code.name})")
    words = text.removeprefix(f"{subject}: ").removesuffix(f" ({code.name})")
    assert words == message.strip().rstrip(".") if message else words and "_" not in words


@given(st.integers(-(1 << 15), (1 << 15) - 1))
def test_codes_of_newer_brokers_are_numbers(code: int) -> None:
    known = {one.value: one.name for one in ErrorCode}
    assert str(ResponseError("topic x", code)).endswith(f" ({known.get(code, str(code))})")


def test_code_of_a_newer_broker_is_not_retriable_and_explains_a_login() -> None:
    code = ErrorCode(12345)
    assert (code, code.name, code.retriable) == (12345, "12345", False) and 12345 not in ErrorCode.__members__.values()
    login = PasswordLogin("PLAIN", "ann", "secret")
    rejected = login_rejection(login, SaslAuthenticateResponse(error_code=12345, error_message=None))
    assert rejected is not None and rejected.words == "it rejected the login of ann: 12345"


def test_no_code_is_no_error_and_all_errors_are_one_family() -> None:
    check("topic x", ErrorCode.NONE)
    for kind in (ResponseError, NoResponse, LoginRejected, UnknownNode, NotSupported, CoordinatorError):
        assert issubclass(kind, RequestFailed)
