"""Properties files, read as Java reads them."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from odradek.client.properties_file import parse_properties, read_properties
from odradek.metadata.configs import InvalidConfig

from compat_tests.java.program import java_command

_SOURCE = Path(__file__).parent / "java" / "ReadProperties.java"
_DEADLINE_S = 60
#: Parts of random lines, most of them with a special meaning.
_PIECES = ("a", "key", "é", "\\", "\\\\", "=", ":", " ", "\t", "\f", "#", "!", "\\u0041", "\\u00e9", "\\ud83d\\ude00")
_ENDS = ("\n", "\n", "\r\n", "\r", "\\\n", "\\\r\n  ", "\n\n", "\n  ")
_FILES = 400


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb: 2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# no\n ! neither\n\n  a  =  1 ", {"a": "1 "}),
        ("path=C:\\\\logs\\\n   \\\\more", {"path": "C:\\logs\\more"}),
        ("a\\ b\\=c=d=e", {"a b=c": "d=e"}),
        ("tab=\\tx\\u0041\\n", {"tab": "\txA\n"}),
        ("a=1\na=2", {"a": "2"}),
        ("smile=\\ud83d\\ude00", {"smile": "😀"}),
        (
            "listeners=PLAINTEXT://:9092,\\\n  CONTROLLER://:9093\n",
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
        ),
    ],
)
def test_properties_read_as_they_are_meant(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_a_broken_escape_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidConfig, match="four hexadecimal digits"):
        parse_properties("a=1\nb=\\u12")


def test_a_file_that_is_not_utf_8_is_latin_1_as_in_java(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("broker.rack=zürich".encode("latin-1"))
    assert read_properties(file) == {"broker.rack": "zürich"}
    file.write_bytes("broker.rack=zürich".encode())
    assert read_properties(file) == {"broker.rack": "zürich"}


@pytest.mark.usefixtures("java_tools")
def test_random_files_read_as_javas_own_class_reads_them(tmp_path: Path) -> None:
    rng = random.Random(20)
    files = []
    for number in range(_FILES):
        files.append(tmp_path / str(number))
        files[-1].write_text(_random_file(rng), newline="", encoding="utf-8")
    command = java_command(_SOURCE, *map(str, files), version=None)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    assert done.returncode == 0, done.stderr
    for file, theirs in zip(files, done.stdout.splitlines(), strict=True):
        assert _outcome(file) == theirs, file.read_bytes()


def _random_file(rng: random.Random) -> str:
    lines = ("".join(rng.choices(_PIECES, k=rng.randrange(8))) + rng.choice(_ENDS) for _ in range(6))
    return "".join(lines)


def _outcome(file: Path) -> str:
    try:
        found = read_properties(file)
    except InvalidConfig:
        return "refused"

    def utf_16(text: str) -> bytes:
        return text.encode("utf-16-be", "surrogatepass")

    keys = sorted(found, key=utf_16)
    return " ".join(["taken", *(f"{utf_16(key).hex()}={utf_16(found[key]).hex()}" for key in keys)])
