"""Write docs/cli.md from the commands' own help (run by `make docs`; a test compares the two)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from rsmi.app.cli import app
from rsmi.app.exits import EXIT_CODES

COMPLETION = [
    "## Completion",
    "",
    "`rsmi --install-completion` teaches the shell in which it is typed (bash, zsh, fish, PowerShell) to complete",
    "commands, options and names: attacks, protocols, presets, variants, data sets. `rsmi --show-completion` prints",
    "what it would install.",
    "",
]
TARGET = Path(__file__).resolve().parent.parent / "docs" / "cli.md"


def markdown() -> str:
    """Return the page: the help of `rsmi` and of each command."""
    parts = [
        "# The command line",
        "",
        "Written by `make docs`. Results go to stdout, progress and errors to stderr.",
        "",
    ]
    parts += ["```text", help_of(), "```", "", *exit_codes(), *COMPLETION]
    for words in commands(get_command(app)):
        parts += [f"## rsmi {' '.join(words)}", "", "```text", help_of(*words), "```", ""]
    return "\n".join(parts)


def exit_codes() -> list[str]:
    """Return the section about exit codes."""
    rows = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    return ["## Exit codes", "", "| code | meaning |", "|---|---|", *rows, ""]


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that is no group of commands."""
    if not hasattr(command, "commands"):
        yield words
    else:
        for name, part in command.commands.items():
            yield from commands(part, (*words, name))


def help_of(*words: str) -> str:
    """Return what `rsmi WORDS --help` prints on a terminal of 100 columns."""
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="rsmi", terminal_width=100, color=False)
    return "\n".join(line.rstrip() for line in result.stdout.strip().splitlines())


if __name__ == "__main__":
    TARGET.write_text(markdown(), encoding="utf-8")
