"""The `rsmi` command: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from rsmi.app.analyse import analyse
from rsmi.app.attack import attack
from rsmi.app.augment import augment
from rsmi.app.certify import certify
from rsmi.app.demo import demo
from rsmi.app.doctor import doctor
from rsmi.app.evaluate import evaluate
from rsmi.app.exits import plain_warnings, refused
from rsmi.app.export import export
from rsmi.app.gate import gate
from rsmi.app.predict import predict
from rsmi.app.report import report
from rsmi.app.reproduce import reproduce
from rsmi.app.resources import resources
from rsmi.app.serve import serve
from rsmi.app.train import train
from rsmi.memory import keep_free_memory

app = typer.Typer(
    name="rsmi",
    help="Text classifiers that hold up under adversarial attack.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_COMMANDS = (train, predict, evaluate, attack, gate, certify, report, serve, export, augment, reproduce, doctor, demo)
for command in _COMMANDS:
    app.command()(command)
app.add_typer(analyse, name="analyse")
app.add_typer(resources, name="resources")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version and stop.")
) -> None:
    if version:
        from rsmi import __version__

        typer.echo(__version__)
        raise typer.Exit()
    if context.invoked_subcommand != "serve":  # a server stays for months: what it does not need goes back at once
        keep_free_memory()


def main() -> None:
    """Run the command line; what can be known to go wrong is one sentence on stderr and exit code 1."""
    from rsmi.errors import RsmiError

    try:
        with plain_warnings():
            app(prog_name="rsmi")
    except RsmiError as error:
        _fail(str(error))
    except (OSError, MemoryError, RuntimeError) as error:
        told = refused(error)
        if told is None:
            raise
        _fail(told)


def _fail(message: str) -> NoReturn:
    typer.echo(f"rsmi: {message}", err=True)
    sys.exit(1)
