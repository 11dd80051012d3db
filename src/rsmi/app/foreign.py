"""Options that say how to ask a model that is not ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer

TargetName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Folder written by rsmi train, any checkpoint, pipeline:NAME (a classifier asked by transformers' own "
        "pipeline), or http://... (any endpoint).",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOptions:
    """What `pipeline:` and `http://` take; None where it was not given."""

    classes: Annotated[
        str | None,
        typer.Option("--classes", help="Not our model: all classes as the data calls them: neg,pos or a JSON list."),
    ] = None
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", metavar="THEIRS=OURS", help="Not our model: what the data calls a class; repeatable."),
    ] = None
    randomised: Annotated[
        bool, typer.Option("--randomised", help="Not our model: it may answer the same text differently.")
    ] = False
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", min=1, help="Not our model: texts of one question, by default 32.")
    ] = None
    body: Annotated[
        str | None,
        typer.Option("--body", metavar="JSON", help='http: what to send, such as {"inputs": ["{text}"]}.'),
    ] = None
    answer: Annotated[
        str | None,
        typer.Option("--answer", metavar="PATH", help="http: where the probabilities are: predictions.*.scores."),
    ] = None
    key_variable: Annotated[
        str | None, typer.Option("--key-variable", help="http: environment variable that holds the API key.")
    ] = None
    key_header: Annotated[
        str | None, typer.Option("--key-header", help="http: header of the key; by default Authorization: Bearer.")
    ] = None
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="http: seconds until a question is given up, by default 30.")
    ] = None
    retries: Annotated[
        int | None,
        typer.Option("--retries", min=0, help="http: times to ask again after 429 or 503; by default 5."),
    ] = None

    def settings(self) -> dict[str, Any]:
        """Return what was given, as arguments of `open_target`."""
        plain = ("batch_size", "body", "answer", "key_variable", "key_header", "timeout", "retries")
        given = {name: getattr(self, name) for name in plain if getattr(self, name) is not None}
        if self.classes is not None:
            given["classes"] = _names(self.classes)
        if self.rename:
            given["rename"] = dict(map(_renaming, self.rename))
        return {**given, "randomised": True} if self.randomised else given


def _names(text: str) -> list[str]:
    from rsmi.errors import ConfigError

    try:
        names = json.loads(text) if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--classes: expected names with commas, or a JSON list; got {text!r}") from error
    return [str(name) for name in names]


def _renaming(text: str) -> tuple[str, str]:
    from rsmi.errors import ConfigError

    theirs, equals, ours = text.rpartition("=")
    if not (theirs and equals and ours):
        raise ConfigError(f"--rename: expected THEIRS=OURS, such as LABEL_1=pos; got {text!r}")
    return theirs, ours
