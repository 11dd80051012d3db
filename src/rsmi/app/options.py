"""Options that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rsmi.app.completion import BACKENDS, DTYPES, VARIANTS, among
from rsmi.app.exits import check_writable

TextColumn = Annotated[
    str | None, typer.Option("--text-column", help="Column of the text, or of the first of a pair; else guessed.")
]
PairColumn = Annotated[str | None, typer.Option("--pair-column", help="Column of the second text of a pair.")]
LabelColumn = Annotated[str | None, typer.Option("--label-column", help="Column of the label; else guessed.")]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Same seed, same answer. Without it every run draws fresh noise.")
]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1, ...; by default a GPU if any.")]
Dtype = Annotated[
    str,
    typer.Option("--dtype", help="Type of the weights: float32, bfloat16 or float16.", autocompletion=among(DTYPES)),
]
Backend = Annotated[
    str,
    typer.Option(
        "--backend",
        help="How copies are classified: torch, int8 (CPU, faster, rounded) or compile.",
        autocompletion=among(BACKENDS),
    ),
]
TokenBudget = Annotated[
    int | None, typer.Option("--token-budget", min=1, help="Tokens of one forward pass; bounds memory.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Variant = Annotated[
    str | None,
    typer.Option(
        "--variant",
        help="Variant of the method: rsmi, no-mask, no-two-step, rm, gm, safer, ranmask, deletion, plain.",
        autocompletion=among(VARIANTS),
    ),
]


def parse_setting(text: str) -> tuple[str, Any]:
    """Split NAME=VALUE; a value that is no JSON is a word."""
    from rsmi.errors import ConfigError

    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError(f"--set: expected NAME=VALUE, such as precision=bf16; got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def parse_settings(given: list[str] | None) -> dict[str, Any]:
    """Read repeated NAME=VALUE."""
    return dict(parse_setting(item) for item in given or ())


def check_free(out: Path, resume: bool) -> None:
    """Refuse to write into the file of another run, or where no file can be; before the work."""
    from rsmi.errors import DataError
    from rsmi.evaluation.recordfile import unstarted

    if out.is_dir():
        raise DataError(f"{out}: expected a file to write, got a folder; name a file in it: {out / 'run.jsonl'}")
    if out.exists() and not resume and not unstarted(out):
        raise DataError(f"{out}: exists already; pass --resume to go on with that run, or choose another file")
    check_writable(out)
