"""A keyword target seen from inside, where losses and gradients are exact and the best attack is known by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerBase

from keywords import KeywordTarget
from rsmi.attacks.whitebox import Question, Slope
from rsmi.method.tokens import Encoded, encode
from rsmi.records import AttackRecord, TextInput
from tiny import WORDS, tiny_tokenizer

SWAPS = {word: [WORDS[(place + step) % 50] for step in (7, 13, 21)] for place, word in enumerate(WORDS[:50])}
"""Three replacements for each word of the tiny models."""


class LinearView:
    """Stands in for `GradientView`: the loss is the lead of the wrong class, up to kappa; one coordinate a word."""

    def __init__(
        self, target: KeywordTarget, kappa: float = math.inf, tokenizer: PreTrainedTokenizerBase | None = None
    ) -> None:
        self.target, self.kappa = target, kappa
        self.tokenizer = tokenizer or tiny_tokenizer("bert")
        self.embeddings = torch.eye(len(self.tokenizer))
        words = self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer)))
        self.weights = torch.tensor([target.weights.get(word, 0.0) for word in words])
        self.asked: list[Question] = []

    def encode(self, texts: Sequence[TextInput]) -> list[Encoded]:
        return encode(self.tokenizer, texts, 64)

    def losses(self, questions: Sequence[Question]) -> list[torch.Tensor]:
        return [slope.losses for slope in self.slopes(questions)]

    def slopes(self, questions: Sequence[Question]) -> list[Slope]:
        self.asked += questions
        answers = []
        for question in questions:
            sign, draws = 1 if question.gold == 0 else -1, len(question.keys)
            moved = torch.zeros(draws) if question.shift is None else (question.shift @ self.weights).sum(1)
            leads = sign * (self.target.score(question.text, 0) + moved)
            gradient = (sign * self.weights).expand(draws, len(self.encode([question.text])[0]), -1)
            counts = (leads < self.kappa).view(-1, 1, 1)
            answers.append(Slope(leads.clamp(max=self.kappa), gradient * counts))
        return answers


def essence(record: AttackRecord) -> tuple[object, ...]:
    """All but scores, whose last digits follow the batch."""
    return record.outcome, record.adversarial, record.queries, record.label_after, record.fresh_flips


class FromInside:
    """A white-box attack that sees a keyword target from inside, put before its class."""

    def __init__(self, linear: LinearView, **settings) -> None:
        super().__init__(**settings)
        self.linear = linear

    def prepare(self, target) -> None:
        pass

    def view(self, victim):
        return self.linear


def split_parts(settings: dict) -> dict:
    """Take the parts of the rules out of an attack's settings."""
    return {name: settings.pop(name) for name in ("stopwords", "constraints", "frozen_columns") if name in settings}
