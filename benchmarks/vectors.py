"""Quality of the vectors that `rsmi resources build vectors` makes, before and after counter-fitting, and its time.

Needs a folder with SimLex-999 (`cf_SimLex-999.txt.gz`) and the nearest words in the published counter-fitted vectors
(`counterfitted_neighbors.json.gz`: word -> up to eight words, frequent words first); with the authors' constraints
(`cf_ppdb_synonyms.txt.gz`, `cf_ppdb_antonyms.txt.gz`, `cf_wordnet_antonyms.txt.gz`) in it, vectors fitted to these are
judged, too.
"""

import argparse
import gzip
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from environment import environment
from rsmi.resources.counterfit import CounterfitConfig, counterfit
from rsmi.resources.neighbours import nearest
from rsmi.resources.stopwords import NLTK_ENGLISH, TEXTFOOLER
from rsmi.resources.vector_build import FLATTENING, WORDNET_CONFIG, flattened, frequent_words, wordnet_pairs
from rsmi.resources.wordnet import WordNet

NEIGHBOURS = 50
BOUNDS = (0.5, 0.6, 0.7, 0.8)
CHOSEN_ON = 4_000  # published words on which the settings were chosen: not judged
Vectors = np.ndarray[Any, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lexical", type=Path, default=os.environ.get("RSMI_DATA"), help="folder; RSMI_DATA if set")
    parser.add_argument("--num-words", type=int, default=50_000)
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the result; a .md file goes beside it")
    options = parser.parse_args()
    if options.lexical is None:
        parser.error("pass --lexical or set RSMI_DATA")
    folder: Path = options.lexical

    wordnet = WordNet.open()
    words, glove = frequent_words(wordnet, options.num_words)
    judge = Judge(words, folder)
    synonyms, antonyms = wordnet_pairs(wordnet, words)
    flat = flattened(glove, FLATTENING)
    makers: dict[str, Callable[[], Vectors]] = {
        "GloVe 6B 50d": lambda: glove,
        "flattened": lambda: flat,
        "WordNet, not flattened": lambda: counterfit(words, glove, synonyms, antonyms, WORDNET_CONFIG),
        "WordNet, the authors' weights": lambda: counterfit(words, flat, synonyms, antonyms),
        "WordNet (the default)": lambda: counterfit(words, flat, synonyms, antonyms, WORDNET_CONFIG),
    }
    own = [read_pairs(folder / f"cf_{name}.txt.gz") for name in ("ppdb_synonyms", "ppdb_antonyms", "wordnet_antonyms")]
    if all(own):
        makers["the authors' constraints"] = lambda: counterfit(words, flat, own[0], own[1] + own[2])
    rows = []
    for name, make in makers.items():
        start = time.monotonic()
        vectors = make()
        seconds = time.monotonic() - start
        rows.append({"vectors": name, **judge(vectors, antonyms), "fit_seconds": round(seconds, 1)})
        print(json.dumps(rows[-1]))
    result = {
        "num_words": len(words),
        "config": {"wordnet": repr(WORDNET_CONFIG), "authors": repr(CounterfitConfig()), "flattening": FLATTENING},
        "note": f"Weights and flattening were chosen on SimLex-999 and on {CHOSEN_ON} other published words",
        "rows": rows,
        "environment": environment(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(markdown(result), encoding="utf-8")


class Judge:
    """Compares vectors with what people and the published vectors say."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.words = words
        self.index = {word: i for i, word in enumerate(words)}
        pairs = [line.split("\t") for line in text_of(folder / "cf_SimLex-999.txt.gz").splitlines()[1:]]
        self.simlex = [(a, b, float(score)) for a, b, _, score, *_ in pairs if a in self.index and b in self.index]
        published: dict[str, list[str]] = json.loads(text_of(folder / "counterfitted_neighbors.json.gz"))
        known = [word for word in published if word in self.index and word not in TEXTFOOLER | NLTK_ENGLISH]
        chosen_on = set([word for word in known if len(published[word]) >= 3][:CHOSEN_ON])
        self.published = {
            word: others
            for word in known
            if word not in chosen_on and (others := {other for other in published[word] if other in self.index})
        }

    def __call__(self, vectors: Vectors, antonyms: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """Return the numbers of one table of vectors."""
        unit = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

        def cosine(a: str, b: str) -> float:
            return float(unit[self.index[a]] @ unit[self.index[b]])

        agreement = spearmanr([cosine(a, b) for a, b, _ in self.simlex], [score for *_, score in self.simlex])
        indices, cosines = nearest(unit, NEIGHBOURS)
        found, first = [], []
        for word, known in self.published.items():
            near = [self.words[i] for i in indices[self.index[word]]]
            found.append(len(known.intersection(near)) / len(known))
            first.append(len(known.intersection(near[: len(known)])) / len(known))
        frequent = cosines[[self.index[word] for word in self.published]]
        return {
            "simlex": round(float(agreement.statistic), 3),
            "simlex_pairs": len(self.simlex),
            "published_in_50": round(float(np.mean(found)), 3),
            "published_first": round(float(np.mean(first)), 3),
            "judged_words": len(found),
            "kept_of_50": {str(bound): round(float((frequent >= bound).sum(axis=1).mean()), 1) for bound in BOUNDS},
            "antonyms": round(float(np.mean([cosine(a, b) for a, b in antonyms])), 3),
        }


def text_of(path: Path) -> str:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read()


def read_pairs(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        return []
    fields = [line.split() for line in text_of(path).splitlines()]
    return [(pair[0], pair[1]) for pair in fields if len(pair) == 2]


def markdown(result: dict[str, Any]) -> str:
    """Return the table."""
    rows = result["rows"]
    first = rows[0]
    lines = [
        f"# Built word vectors: {result['num_words']} words",
        "",
        f"SimLex-999: rank correlation over {first['simlex_pairs']} pairs. Published in 50: share of a word's nearest "
        f"words in the published vectors that are among its 50 nearest here, mean over {first['judged_words']} words; "
        "published first: among as many nearest as there are published ones. Kept: how many of the 50 have at least "
        f"that cosine. Antonyms: mean cosine of WordNet's. {result['note']}.",
        "",
        "| Vectors | SimLex-999 | Published in 50 | Published first | Kept 0.5 | 0.6 | 0.7 | 0.8 | Antonyms | Fit s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        kept = " | ".join(str(value) for value in row["kept_of_50"].values())
        lines.append(
            f"| {row['vectors']} | {row['simlex']} | {row['published_in_50']} | {row['published_first']} | {kept} | "
            f"{row['antonyms']} | {row['fit_seconds']} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
