"""A dataclass in a command's signature becomes its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from rsmi.app.attack import AttackOptions
from rsmi.app.cli import app
from rsmi.app.grouped import grouped


@dataclass(frozen=True, kw_only=True)
class Size:
    width: Annotated[int, typer.Option("--width", help="How wide.")]
    height: Annotated[int, typer.Option("--height", help="How high.")] = 2


def test_fields_become_options_and_come_back_as_the_dataclass():
    seen = []

    @grouped
    def paint(name: Annotated[str, typer.Argument()], size: Size, fast: bool = False) -> None:
        """Paint."""
        seen.append((name, size, fast))

    own = typer.Typer(rich_markup_mode=None)
    own.command()(paint)
    assert CliRunner().invoke(own, ["wall", "--width", "3", "--fast"]).exit_code == 0
    assert seen == [("wall", Size(width=3, height=2), True)]
    missing = CliRunner().invoke(own, ["wall"])
    assert missing.exit_code == 2
    assert "--width" in missing.output
    assert paint.__doc__ == "Paint."


def test_attack_and_gate_take_the_same_options():
    def options(command):
        lines = CliRunner().invoke(app, [command, "--help"], prog_name="rsmi", terminal_width=200).stdout.splitlines()
        return {line.split()[0] for line in lines if line.startswith("  --")}

    own = {"--min-robust-accuracy", "--min-accuracy", "--max-success-rate", "--sure", "--report"}
    assert options("gate") - options("attack") == own
    assert options("attack") <= options("gate")
    assert len(options("attack")) > len(AttackOptions.__dataclass_fields__)
