r"""Cost of a prediction in plain forward passes of the same texts, and against the authors' algorithm (`make bench`).

    rsmi train imdb --out runs/speed --limit 2000 --epochs 2 --max-length 128 --learning-rate 1e-4 --num-masks 2 \
        --group-by-length
    OMP_WAIT_POLICY=PASSIVE python benchmarks/speed.py --model runs/speed --out benchmarks/results/speed

Texts are of exactly 45 or 200 tokens, cut from the embedded IMDb reviews, and sorted by whether their prediction stops
at step one or goes on. Within a repeat each way of predicting is timed next to the plain forward pass (transformers'
own, padded to the longest text of the batch); the ratio of the two is taken repeat by repeat. The settings are the
paper's (sigma 0.2 after layers 0, 2, 4; 2 masks of 5 candidates; 5 and 50 votes), whatever the classifier was trained
with. Writes OUT.json and OUT.md.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from environment import environment, save
from naive import Naive
from rsmi import RsmiClassifier, RsmiConfig, load_data

LENGTHS, BATCHES, SEED = (45, 200), (1, 8, 64), 0
PAPER = RsmiConfig(noise_std=0.2, noise_layers=(0, 2, 4), num_masks=2, num_candidates=5, first_votes=5, second_votes=50)
AVERAGED = replace(PAPER, aggregation="logit-average")
TARGETS = {("stops", "averaged"): 6, ("stops", "voted"): 6, ("escalates", "averaged"): 42, ("escalates", "voted"): 28}

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/speed"), help="classifier of imdb")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--texts", type=int, default=64, help="texts of each kind and length")
    parser.add_argument(
        "--naive-texts", type=int, default=24, help="texts of the comparison with the authors' algorithm"
    )
    parser.add_argument("--only", choices=["predictions", "authors"], help="the other half is taken from OUT.json")
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    known = {} if options.only is None else json.loads(options.out.with_suffix(".json").read_text(encoding="utf-8"))
    bench = Bench(options)
    rows = known["rows"] if options.only == "authors" else bench.predictions()
    against = known["authors"] if options.only == "predictions" else bench.against_authors()
    result = {
        "rows": rows,
        "authors": against,
        "repeats": options.repeats,
        "seed": SEED,
        "model": str(options.model),
        "config": PAPER.to_dict(),
        "environment": environment(),
    }
    save(options.out, result, page(result))


class Bench:
    """Classifiers and texts to time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        settings = {"seed": SEED, "progress": False}
        self.voted = RsmiClassifier.from_pretrained(options.model, PAPER, **settings)
        self.averaged = RsmiClassifier.from_pretrained(options.model, AVERAGED, **settings)
        test = replace(PAPER, stop="sequential")
        self.sequential = RsmiClassifier.from_pretrained(options.model, test, **settings)
        loaded = self.voted.engine().loaded
        self.model, self.tokenizer = loaded.encoder.model, loaded.tokenizer
        self.all_texts = {length: self.cut(length, 6 * options.texts) for length in LENGTHS}
        self.kinds = {length: self.sort(length) for length in LENGTHS}

    def cut(self, length: int, count: int) -> list[str]:
        """Return texts of exactly `length` tokens."""
        found: list[str] = []
        for review in load_data("imdb", "test").texts:
            encoding = self.tokenizer(review, add_special_tokens=False, return_offsets_mapping=True)
            offsets = encoding["offset_mapping"][: length - 2]
            if len(offsets) == length - 2:
                text = review[: offsets[-1][1]]
                if len(self.tokenizer(text)["input_ids"]) == length:
                    found.append(text)
            if len(found) == count:
                break
        return found

    def sort(self, length: int) -> dict[str, list[str]]:
        """Return texts that stop at step one and texts that go on, and the share of the latter."""
        predictions = self.voted.explain(self.all_texts[length])
        stops = [p.text for p in predictions if not p.escalated][: self.options.texts]
        escalates = [p.text for p in predictions if p.escalated][: self.options.texts]
        self.share = {**getattr(self, "share", {}), length: sum(p.escalated for p in predictions) / len(predictions)}
        return {"stops": stops, "escalates": escalates}

    def plain(self, texts: Sequence[str]) -> None:
        """Classify once, as transformers does."""
        inputs = self.tokenizer(list(texts), padding=True, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            self.model(**inputs)

    def predictions(self) -> list[Row]:
        """Time every way of predicting for every length, kind and batch."""
        two_steps = {"voted": self.voted, "averaged": self.averaged}
        rows: list[Row] = []
        cells = [(length, kind, batch) for length in LENGTHS for kind in ("stops", "escalates") for batch in BATCHES]
        for length, kind, batch in tqdm(cells, "cells"):
            ways = {**two_steps, "sequential": self.sequential} if batch == 8 else two_steps
            texts = self.kinds[length][kind]
            calls = -(-min(len(texts), 4 if batch == 1 else batch) // batch)  # single texts: four of them
            parts = [texts[i * batch : (i + 1) * batch] for i in range(calls)]
            functions: dict[str, Callable[[], None]] = {"plain": lambda parts=parts: each(self.plain, parts)}
            for name, classifier in ways.items():
                functions[name] = lambda parts=parts, classifier=classifier: each(classifier.predict, parts)
            times = timed(functions, self.options.repeats)
            for name, classifier in ways.items():
                ratios = [one / unit for one, unit in zip(times[name], times["plain"], strict=True)]
                copies = [copies_used(classifier, part) for part in parts]
                rows.append(
                    {"length": length, "kind": kind, "batch": batch, "texts": sum(map(len, parts)), "way": name}
                    | spread(ratios)
                    | {"copies": sum(copies) / sum(map(len, parts)), "target": TARGETS.get((kind, name))}
                )
        return rows

    def against_authors(self) -> list[Row]:
        """Time the authors' algorithm next to ours, on texts as they come and by kind."""
        count = self.options.naive_texts
        engine = self.voted.engine()
        naive = Naive.of(engine.loaded, engine.plan, engine.config, SEED)
        few = max(2, count // 3)
        sets = [(length, kind, self.kinds[length][kind][:few]) for length in LENGTHS for kind in ("stops", "escalates")]
        sets.append((LENGTHS[0], "mix", self.all_texts[LENGTHS[0]][:count]))
        rows = []
        for length, kind, texts in tqdm(sets, "authors"):
            naive.escalated = 0
            times = timed(
                {
                    "plain": lambda texts=texts: self.plain(texts),
                    "voted": lambda texts=texts: discard(self.voted.predict(texts)),
                    "averaged": lambda texts=texts: discard(self.averaged.predict(texts)),
                    "authors": lambda texts=texts: discard(naive.predict(texts, average=True)),
                },
                self.options.repeats,
            )
            rows.append(
                {"length": length, "kind": kind, "texts": len(texts), "repeats": len(times["authors"])}
                | {"authors_in_plain": spread(ratio(times, "authors", "plain"))}
                | {f"authors_over_{name}": spread(ratio(times, "authors", name)) for name in ("voted", "averaged")}
                | {f"{name}_in_plain": spread(ratio(times, name, "plain")) for name in ("voted", "averaged")}
                | {"escalated_by_authors": naive.escalated / (len(texts) * (1 + len(times["authors"])))}
                | {"escalated_by_ours": sum(p.escalated for p in self.voted.explain(texts)) / len(texts)}
            )
        return rows


def copies_used(classifier: RsmiClassifier, texts: Sequence[str]) -> int:
    """Return how many copies voted when labels were asked for."""
    outcomes = [outcome.decision for _, _, outcome in classifier.engine().outcomes(texts, "label")]
    votes = [own.first_votes.sum() + (0 if own.second_votes is None else own.second_votes.sum()) for own in outcomes]
    return int(sum(votes))


def each(function: Callable[[Sequence[str]], object], parts: Sequence[Sequence[str]]) -> None:
    """Call a function on every part."""
    for part in parts:
        function(part)


def discard(_value: object) -> None:
    """Take a value for its cost alone."""


def timed(functions: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Return seconds of every function, run in turn `repeats` times after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if number > 0:
                times[name].append(time.perf_counter() - start)
    return times


def ratio(times: dict[str, list[float]], above: str, below: str) -> list[float]:
    """Return ratios, repeat by repeat."""
    return [one / other for one, other in zip(times[above], times[below], strict=True)]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, least and largest."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def page(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    env = result["environment"]
    lines = [
        "# Cost of a prediction, in plain forward passes of the same texts",
        "",
        f"Median (least to most) of {result['repeats']} repeats; seed {result['seed']}; {env['cores']} cores, "
        f"{env['threads']} threads, torch {env['versions']['torch']}, transformers {env['versions']['transformers']}, "
        f"commit {env['commit']}. `python benchmarks/speed.py`",
        "",
        "| Tokens | Prediction | Batch | Way | Forward passes | Copies a text | Target |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        target = "" if row["target"] is None else f"<= {row['target']}"
        lines.append(
            f"| {row['length']} | {row['kind']} | {row['batch']} | {row['way']} | {shown(row)} | {row['copies']:.1f} "
            f"| {target} |"
        )
    lines += [
        "",
        "# Against the authors' algorithm (benchmarks/naive.py)",
        "",
        "| Tokens | Texts | n | Authors, in plain passes | Ours, averaged | Ours, voted | Authors / averaged "
        "| Authors / voted | Escalated (authors, ours) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["authors"]:
        names = (
            "authors_in_plain",
            "averaged_in_plain",
            "voted_in_plain",
            "authors_over_averaged",
            "authors_over_voted",
        )
        lines.append(
            f"| {row['length']} | {row['kind']} | {row['texts']} x {row['repeats']} | "
            + " | ".join(shown(row[name]) for name in names)
            + f" | {row['escalated_by_authors']:.2f}, {row['escalated_by_ours']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def shown(spread: dict[str, float]) -> str:
    """Return a median with its range."""
    return f"{spread['median']:.2f} ({spread['least']:.2f} to {spread['most']:.2f})"


if __name__ == "__main__":
    main()
