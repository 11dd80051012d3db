"""Write tests/golden/textattack.json: what TextAttack does to toy texts, with a victim and models made of strings.

Runs in the environment of requirements.txt. Results that hang on less than `MARGIN` are refused: another machine,
float32 instead of float64, or another order of summation must not change them.
"""

import argparse
import json
import re
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from golden_inputs import CLASSES, CLUSTERS, MLM_VOCABULARY, PAIRS, TEXTS, WEIGHTS, WRONG
from inject import add_options, nearest, unit_rows
from transformers import BatchEncoding

from attack_toys import LinearVictim, ToyMaskedLM, encode, hashed
from rsmi.attacks.textattack_nltk import nltk_data_folder
from rsmi.attacks.textattack_offline import GuestResources, load_textattack
from rsmi.attacks.textattack_wrapper import as_input, recipe

MLM_TOKENS = MLM_VOCABULARY.split()
RUNS = [(attack, budget) for budget in (None, 30) for attack in ("textfooler", "pwws", "bae")]
MARGIN = 5e-7
DIMENSIONS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    add_options(parser)
    options = parser.parse_args()
    nltk_data = nltk_data_folder(options.cache, wordnet=options.wordnet, tagger=options.tagger)
    load_textattack(nltk_data)
    words, vectors = toy_vectors()
    victim = LinearVictim(CLASSES, WEIGHTS)
    inputs = toy_inputs(victim)
    results = []
    for attack, budget in RUNS:
        found = run(attack, budget, victim, inputs, words, vectors, nltk_data)
        results += [{"attack": attack, "max_queries": budget, "input": i, **row} for i, row in enumerate(found)]
        print(attack, budget, counts(found))
    golden = {
        "about": {
            "made_by": "benchmarks/parity/golden.py",
            "versions": {name: version(name) for name in ("textattack", "nltk", "torch", "numpy")},
            "vectors": "to be scaled to length 1 in float32; candidates are the 50 nearest other words",
        },
        "victim": {"classes": CLASSES, "weights": WEIGHTS},
        "vectors": [{"word": word, "vector": row} for word, row in zip(words, vectors.tolist(), strict=True)],
        "masked_lm": {"tokens": MLM_TOKENS},
        "inputs": inputs,
        "results": results,
    }
    options.out.write_text(compact(golden) + "\n", encoding="utf-8")


def compact(values: dict[str, Any]) -> str:
    """Return JSON with one line for each row of a table."""
    parts = []
    for name, value in values.items():
        rows = value if isinstance(value, list) else [value]
        lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
        parts.append(f' "{name}": ' + (f"[\n{lines}\n ]" if isinstance(value, list) else lines.strip()))
    return "{\n" + ",\n".join(parts) + "\n}"


def toy_vectors() -> tuple[list[str], np.ndarray]:
    """Return words and vectors: those of a cluster lie around one point."""
    rows = {}
    for number, cluster in enumerate(CLUSTERS):
        for word in cluster.split():
            rows[word] = np.round(hashed(f"cluster {number}", DIMENSIONS) + 0.7 * hashed(word, DIMENSIONS), 3)
    return list(rows), np.stack(list(rows.values()))


def toy_inputs(victim: LinearVictim) -> list[dict[str, Any]]:
    """Return texts and pairs with their labels: what the victim says, or for some the next class."""
    inputs: list[dict[str, Any]] = [{"text": text, "columns": []} for text in TEXTS]
    inputs += [{"text": [first, second], "columns": list(columns)} for columns, first, second in PAIRS]
    for number, item in enumerate(inputs):
        answer = int(victim.query([as_text(item["text"])])[0].argmax())
        item["label"] = CLASSES[(answer + (number in WRONG)) % len(CLASSES)]
    return inputs


def run(
    attack: str,
    budget: int | None,
    victim: LinearVictim,
    inputs: list[dict[str, Any]],
    words: list[str],
    vectors: np.ndarray,
    nltk_data: Path,
) -> list[dict[str, Any]]:
    """Attack all inputs."""
    rows = unit_rows(vectors)
    language_model = TorchMaskedLM(ToyMaskedLM(MLM_TOKENS))
    resources = GuestResources(
        words=words,
        vectors=rows,
        neighbours=nearest(rows),
        encode=encode,
        masked_lm=language_model,
        masked_lm_tokenizer=language_model,
        nltk_data=nltk_data,
    )
    built = recipe(attack, victim, resources, max_queries=budget)
    margins = Margins(built)
    results = []
    for item in inputs:
        margins.what = json.dumps([attack, budget, item["text"]], ensure_ascii=False)
        columns = tuple(item["columns"])
        result = built.attack(as_input(as_text(item["text"]), columns), CLASSES.index(item["label"]))
        after = result.perturbed_result
        results.append(
            {
                "outcome": type(result).__name__.removesuffix("AttackResult"),
                "final": after.attacked_text.tokenizer_input,
                "queries": result.num_queries,
                "final_score": round(float(after.score), 6),
            }
        )
    if margins.close:
        raise SystemExit("too close to be golden, change the toys:\n" + "\n".join(sorted(set(margins.close))))
    return results


def as_text(text: Any) -> Any:
    """Return a pair, which JSON holds as a list, as a tuple."""
    return tuple(text) if isinstance(text, list) else text


def counts(results: list[dict[str, Any]]) -> dict[str, int]:
    """Return how often each outcome occurs, and the sum of the queries."""
    outcomes = [result["outcome"] for result in results]
    return {name: outcomes.count(name) for name in sorted(set(outcomes))} | {
        "queries": sum(r["queries"] for r in results)
    }


class TorchMaskedLM(torch.nn.Module):
    """The toy masked language model as TextAttack asks it: tokenizer and model in one."""

    mask_token, mask_token_id = "[MASK]", MLM_TOKENS.index("[MASK]")

    def __init__(self, toy: ToyMaskedLM) -> None:
        super().__init__()
        self.toy = toy
        self.config = type("Config", (), {"model_type": "bert"})()
        self.texts: list[str] = []

    def __call__(self, texts: Any = None, **inputs: Any) -> Any:
        """Tokenize `texts` to nothing but a mask; or, without texts, return logits for those tokenized last."""
        if texts is not None:
            self.texts = list(texts)
            return BatchEncoding({"input_ids": torch.full((len(texts), 1), self.mask_token_id)})
        return (torch.tensor(np.stack([self.toy.logits(text) for text in self.texts]))[:, None, :],)

    def convert_ids_to_tokens(self, number: int) -> str:
        """Return a token."""
        return self.toy.tokens[number]


class Margins:
    """Watches an attack for decisions that rounding could turn."""

    def __init__(self, attack: Any) -> None:
        self.what = ""
        self.close: list[str] = []
        self.ranking = False
        self.importance: list[list[float]] = []
        search = attack.search_method
        self.weighted = search.wir_method == "weighted-saliency"
        search.get_goal_results = self.watched_results(attack.goal_function.get_results)
        search.get_transformations = self.watched_transformations(attack.get_transformations)
        search._get_index_order = self.watched_order(search._get_index_order)
        for constraint in attack.constraints:
            if hasattr(constraint, "_score_list"):
                constraint._score_list = self.watched_similarity(constraint, constraint._score_list)

    def watched_results(self, get_results: Any) -> Any:
        """Look at the scores of each call: the best of the candidates must stand out, and so must the class."""

        def call(texts: list[Any], **options: Any) -> Any:
            results, over = get_results(texts, **options)
            for result in results:
                top = sorted(map(float, result.raw_output), reverse=True)
                self.note(top[0] - top[1], "two classes tie")
            if self.ranking:
                self.importance.append([float(result.score) for result in results])
            else:
                # texts the victim cannot tell apart tie on every machine, and then their order decides
                scores = {" ".join(re.findall(r"\w+", r.attacked_text.text.lower())): float(r.score) for r in results}
                for gap in gaps(list(scores.values()))[:1]:
                    self.note(gap, "two candidates tie")
            return results, over

        return call

    def watched_transformations(self, get_transformations: Any) -> Any:
        """Know of words without candidates: they are never asked about."""

        def call(*args: Any, **options: Any) -> Any:
            texts = get_transformations(*args, **options)
            if self.ranking and not texts:
                self.importance.append([])
            return texts

        return call

    def watched_order(self, get_order: Any) -> Any:
        """Look at the importance of words: no two may tie, but those that have no candidates."""

        def call(text: Any, *args: Any) -> Any:
            self.ranking, self.importance = True, []
            try:
                found = get_order(text, *args)
            finally:
                self.ranking = False
            first, *candidates = self.importance
            if self.weighted and first:
                shares = torch.softmax(torch.tensor(first), 0).tolist()
                first = [share * max(row) for share, row in zip(shares, candidates, strict=False) if row]
            for gap in gaps(first):
                self.note(gap, "two words tie")
            return found

        return call

    def watched_similarity(self, constraint: Any, score_list: Any) -> Any:
        """Look at similarities near the threshold, or near each other."""

        def call(start: Any, texts: list[Any]) -> Any:
            scores = score_list(start, texts)
            distinct = {text.text.lower(): float(score) for text, score in zip(texts, scores, strict=True)}
            for score in distinct.values():
                self.note(abs(score - constraint.threshold), "a similarity is at the threshold")
            for gap in gaps(list(distinct.values())):
                self.note(gap, "two similarities tie")
            return scores

        return call

    def note(self, gap: float, what: str) -> None:
        """Remember a decision that is too close."""
        if gap < MARGIN:
            self.close.append(f"{self.what}: {what} ({gap:.1e})")


def gaps(numbers: list[float]) -> list[float]:
    """Return by how much each number exceeds the next, the largest first."""
    return [one - other for one, other in pairwise(sorted(numbers, reverse=True))]


if __name__ == "__main__":
    main()
