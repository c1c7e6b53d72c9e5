"""Java programs of the tests are compiled once, and share class data without a word about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .java import program
from .java.fetch import ORACLE, SPECIFICATION, write_jar
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


def test_checkouts_at_different_paths_share_a_compiled_program_until_a_jar_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PROGRAMS", tmp_path / "programs")
    found = []
    for checkout, text in (("one", "text"), ("two", "text"), ("two", "next")):
        jars, classes = tmp_path / checkout / "jars", tmp_path / checkout / "classes"
        classes.mkdir(parents=True, exist_ok=True)
        (classes / "words.txt").write_text(text)
        write_jar(jars / "library-1.jar", classes)
        source = tmp_path / checkout / "Word.java"
        source.write_text("class Word { }")
        alone, folder = compiled(source, str(jars / "library-1.jar")), compiled(source, f"{jars}/*")
        assert alone == folder
        found.append(folder)
    assert found[0] == found[1] != found[2]


def test_a_checkout_with_a_link_to_the_tools_of_another_one_uses_their_paths(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    copied = tmp_path / "linked" / "compat_tests"
    shutil.copytree(root / "compat_tests" / "java", copied / "java", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("downloads.py", "needed_tools.py"):
        shutil.copy(root / "compat_tests" / name, copied)
    (tmp_path / "tools").mkdir()
    (tmp_path / "linked" / ".tools").symlink_to(tmp_path / "tools")
    text = "from compat_tests.java.fetch import PROGRAMS; print(PROGRAMS)"
    command = [sys.executable, "-P", "-c", text]
    environment = os.environ | {"PYTHONPATH": str(copied.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_DEADLINE_S, check=True)
    assert Path(done.stdout.strip()) == (tmp_path / "tools" / "java").resolve()


def test_a_source_that_does_not_compile_is_an_error_with_the_words_of_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PROGRAMS", tmp_path / "programs")
    source = tmp_path / "Wrong.java"
    source.write_text("class Wrong { int one = two; }")
    with pytest.raises(RuntimeError, match="cannot find symbol"):
        java_command(source, version=None)
    assert not list((tmp_path / "programs").iterdir())
