"""The native attacks do what TextAttack 0.3.11 did to the same toys: outcome, text and number of queries.

Golden results by benchmarks/parity/golden.py, in an environment with TextAttack.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attack_toys import LinearVictim, ToyMaskedLM, encode
from rsmi.attacks.bae import BAE
from rsmi.attacks.base import Attack
from rsmi.attacks.pwws import PWWS
from rsmi.attacks.textfooler import TextFooler

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "textattack.json").read_text(encoding="utf-8"))
OUTCOMES = {"succeeded": "Successful", "failed": "Failed", "skipped": "Skipped"}
USE_ANGULAR, USE_COSINE = 0.840845057, 0.936338023  # the thresholds of the recipes


class Vectors:
    """Nearest words among the golden file's vectors."""

    name = "toy vectors"

    def __init__(self) -> None:
        self.words = [row["word"] for row in GOLDEN["vectors"]]
        rows = np.array([row["vector"] for row in GOLDEN["vectors"]], dtype=np.float32)
        self.rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def neighbours(self, word: str, count: int = 50) -> list[tuple[str, float]]:
        if word not in self.words:
            return []
        own = self.words.index(word)
        cosines = self.rows.astype(np.float64) @ self.rows[own].astype(np.float64)
        order = [place for place in np.argsort(-cosines, kind="stable") if place != own][:count]
        return [(self.words[place], float(cosines[place])) for place in order]

    def cosine(self, first: str, second: str) -> float | None:
        if first not in self.words or second not in self.words:
            return None
        one, other = self.rows[self.words.index(first)], self.rows[self.words.index(second)]
        return float(one.astype(np.float64) @ other.astype(np.float64))


class Encoder:
    name = "toy encoder"

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        rows = encode(texts)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class MaskedLM(ToyMaskedLM):
    name, mask_token = "toy masked lm", "[MASK]"

    def fill(self, texts: Sequence[str], allowed: np.ndarray, count: int) -> list[list[int]]:
        found = []
        for text in texts:
            order = np.argsort(-self.logits(text), kind="stable")
            found.append([int(token) for token in order if allowed[token]][:count])
        return found


@cache
def attack_of(name: str, max_queries: int | None) -> Attack:
    toys: dict[str, Any] = {"encoder": Encoder(), "max_queries": max_queries}
    if name == "pwws":
        return PWWS(max_queries=max_queries)
    if name == "bae":
        return BAE(masked_lm=MaskedLM(GOLDEN["masked_lm"]["tokens"]), min_similarity=USE_COSINE, **toys)
    return TextFooler(vectors=Vectors(), min_similarity=USE_ANGULAR, **toys)


def as_text(text: str | list[str]) -> str | tuple[str, str]:
    return text if isinstance(text, str) else (text[0], text[1])


@pytest.mark.parametrize("together", [1, 16])
@pytest.mark.parametrize("name", ["textfooler", "pwws", "bae"])
@pytest.mark.parametrize("max_queries", [None, 30])
def test_every_outcome_text_and_query_count_is_textattacks(name: str, max_queries: int | None, together: int) -> None:
    target = LinearVictim(**GOLDEN["victim"])
    attack = attack_of(name, max_queries)
    golden = [row for row in GOLDEN["results"] if (row["attack"], row["max_queries"]) == (name, max_queries)]
    assert len(golden) == len(GOLDEN["inputs"])
    groups: dict[tuple[tuple[str, ...], bool], list[int]] = {}
    for place, item in enumerate(GOLDEN["inputs"]):
        groups.setdefault((tuple(item["columns"]), isinstance(item["text"], str)), []).append(place)
    differences = []
    for (columns, _), places in groups.items():
        texts = [as_text(GOLDEN["inputs"][place]["text"]) for place in places]
        labels = [GOLDEN["inputs"][place]["label"] for place in places]
        for number, record in attack.run(target, texts, labels, together=together, columns=columns):
            row = golden[places[number]]
            got = (OUTCOMES[record.outcome], record.adversarial, record.queries)
            wanted = (row["outcome"], as_text(row["final"]), row["queries"])
            if got != wanted:
                differences.append((texts[number], got, wanted))
            else:
                assert 1 - record.gold_after == pytest.approx(row["final_score"], abs=2e-6)
    assert differences == []
