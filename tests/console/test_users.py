"""The users file, sessions and their tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.client.login_limit import LoginLimit
from odradek.client.user_errors import Misused
from odradek.console.access import users
from odradek.console.access.sessions import Session, Sessions, is_token_of
from odradek.console.access.users import Users, add_user


@pytest.fixture(autouse=True)
def few_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "ITERATIONS", 1000)


def test_password_is_checked_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "users"
    add_user(file, "alice", "admin", "first password")
    add_user(file, "bob", "viewer", "second password")
    known = Users(file)
    found = known.check("alice", "first password")
    assert found is not None and found.may_change
    assert known.check("alice", "second password") is None
    assert known.check("nobody-here", "first password") is None
    bob = known.find("bob")
    assert bob is not None and not bob.may_change
    add_user(file, "alice", "viewer", "third password")
    assert known.check("alice", "first password") is None
    assert known.check("alice", "third password") is not None


def test_user_removed_from_the_file_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "users"
    add_user(file, "alice", "admin", "first password")
    known = Users(file)
    file.write_text("# none\n")
    assert known.find("alice") is None


@pytest.mark.parametrize("line", ["alice", "alice:root:pbkdf2$1$aa$bb", "alice:admin:plain"])
def test_line_that_is_no_user_is_an_error(tmp_path: Path, line: str) -> None:
    file = tmp_path / "users"
    file.write_text(f"{line}\n")
    with pytest.raises(Misused, match="line 1"):
        Users(file)


@pytest.mark.parametrize(("name", "password"), [("a:b", "long enough"), ("", "long enough"), ("alice", "short")])
def test_user_that_cannot_be_meant_is_an_error(tmp_path: Path, name: str, password: str) -> None:
    with pytest.raises(Misused):
        add_user(tmp_path / "users", name, "admin", password)


def test_session_is_read_back_and_a_forged_one_is_not() -> None:
    sessions, others = Sessions(), Sessions()
    session = sessions.begin("alice")
    assert sessions.read(sessions.written(session)) == session
    assert others.read(sessions.written(session)) is None
    assert sessions.read(None) is None and sessions.read("x.y.z") is None


def test_token_belongs_to_its_session() -> None:
    assert is_token_of(Session("alice", "t1"), "t1")
    assert not is_token_of(Session("alice", "t1"), "t2")
    assert not is_token_of(None, "")


def test_sixth_login_waits_and_other_addresses_do_not() -> None:
    limit = LoginLimit()
    assert [limit.begin("10.0.0.1") for _ in range(6)] == [True] * 5 + [False]
    assert limit.begin("10.0.0.2")
