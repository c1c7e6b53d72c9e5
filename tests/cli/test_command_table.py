"""Each command of odradek that the guide lists exists, with its options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from odradek.cli.client.completion import root
from odradek.cli.main import parser

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (DOCS / "command-line.md", DOCS / "specialists" / "kcat-and-rpk.md")


def named_commands() -> list[str]:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    tables = re.findall(r"`(odradek [^`]+)`", text)
    blocks = [line for line in re.findall(r"^(?:.*\| )?(odradek [^\n]*)$", text, re.MULTILINE) if "`" not in line]
    return sorted({one.split(" | ")[0] for one in tables + blocks if "|" not in one.split(" ")[1]})


@pytest.fixture(scope="module")
def tree() -> Any:
    return typer.main.get_command(root(parser()))


@pytest.mark.parametrize("line", named_commands())
def test_command_of_the_guide_exists_with_its_options(tree: Any, line: str) -> None:
    words = [word for word in shlex.split(line.replace("...", "").replace("`", "")) if word not in ("||", "true")][1:]
    command = tree
    while words and hasattr(command, "commands"):
        if "|" in words[0]:
            assert set(words[0].split("|")) <= set(command.commands)
            return
        assert words[0] in command.commands, f"{words[0]} of {line}"
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = {
        word.split("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word) and not re.fullmatch(r"-\d+\w*", word)
    }
    assert given <= known, f"{given - known} of {line}"
