"""Java programs of the tests are compiled once, and share class data without a word about it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .java import program
from .java.fetch import ORACLE, SPECIFICATION
from .java.program import JVM_FLAGS, archive, compiled, java_command
from .needed_tools import missing

_VERSION = ("kafka.Kafka", "--version")
_KAFKA = " org.apache.kafka."
_DEADLINE_S = 60

pytestmark = pytest.mark.usefixtures("java_tools")


def run(command: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    return done.returncode, done.stdout, done.stderr


def made(version: str) -> Path:
    """Returns the archive of a release. Skips the test if it was not made."""
    if not (found := archive(version)).exists():
        missing(f"class data of Apache Kafka {version}: run `python -m compat_tests.java.archives`")
    return found


@pytest.mark.parametrize("version", [ORACLE, SPECIFICATION])
@pytest.mark.parametrize("more_jars", [(), ("another.jar",)])
def test_a_jvm_shares_the_classes_of_kafka_and_prints_nothing_about_it(
    tmp_path: Path, version: str, more_jars: tuple[str, ...]
) -> None:
    made(version)
    log = tmp_path / "classes"
    flags = (*JVM_FLAGS, f"-Xlog:class+load:file={log}")
    status, out, err = run(java_command(*_VERSION, jvm=flags, version=version, more_jars=more_jars))
    assert (status, out.split(maxsplit=1)[0], out.count("\n"), err) == (0, version, 1, "")
    loaded = [line for line in log.read_text().splitlines() if _KAFKA in line]
    shared = [line for line in loaded if "shared objects file" in line]
    assert len(shared) > 0.9 * len(loaded) > 10


def test_a_jvm_ignores_an_archive_that_is_not_of_its_jars_and_prints_nothing_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(java_command(*_VERSION))
    for text in (b"", b"no archive" * 1000, made(SPECIFICATION).read_bytes()):
        other = tmp_path / "other.jsa"
        other.write_bytes(text)
        monkeypatch.setattr(program, "archive", lambda version, file=other: file)
        command = java_command(*_VERSION)
        assert f"-XX:SharedArchiveFile={other}" in command
        assert run(command) == expected


def test_a_source_is_compiled_once_and_anew_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PROGRAMS", tmp_path / "programs")
    source = tmp_path / "Word.java"
    made = []
    for word in ("first", "first", "second"):
        source.write_text(f'class Word {{ public static void main(String[] a) {{ System.out.print("{word}"); }} }}')
        made.append((compiled(source, "").stat().st_ino, run(java_command(source, version=None))))
    assert [output for _, output in made] == [(0, "first", ""), (0, "first", ""), (0, "second", "")]
    assert made[0][0] == made[1][0] != made[2][0]
    assert len(list((tmp_path / "programs").iterdir())) == 2


def test_a_source_that_does_not_compile_is_an_error_with_the_words_of_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PROGRAMS", tmp_path / "programs")
    source = tmp_path / "Wrong.java"
    source.write_text("class Wrong { int one = two; }")
    with pytest.raises(RuntimeError, match="cannot find symbol"):
        java_command(source, version=None)
    assert not list((tmp_path / "programs").iterdir())
