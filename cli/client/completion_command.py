"""`odradek completion`: the script that lets a shell complete commands, options, contexts and topics."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from .options import new_app

app = new_app("Print the shell's completion script.")


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish")]) -> None:
    """Print the shell's completion script: `source <(odradek completion bash)`."""
    from typer import completion as typers

    # Typer offers the function by an option of its own only; pyproject.toml pins typer.
    script: str = vars(typers)["get_completion_script"](
        prog_name="odradek", complete_var="_ODRADEK_COMPLETE", shell=shell.value
    )
    typer.echo(script.strip())
