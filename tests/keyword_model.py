"""A tiny model trained on a task of keywords, the words that may replace others, and texts to attack."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from rsmi import RsmiClassifier, RsmiConfig, TrainConfig
from rsmi.method.substitution import SynonymTable
from rsmi.settings import updated
from tiny import WORDS, save_tiny

POSITIVE = ("good", "great", "fine", "warm", "joy", "love", "like")
NEGATIVE = ("bad", "poor", "dull", "cold", "bore", "hate", "never")
NEUTRAL = tuple(word for word in WORDS if word.isalpha() and word not in POSITIVE + NEGATIVE)


def _table() -> dict[str, list[str]]:
    """Five words for each word; for a keyword two neutral ones, two of its own side and one of the other."""
    table = {}
    for place, word in enumerate(NEUTRAL):
        table[word] = [NEUTRAL[(place + step) % len(NEUTRAL)] for step in range(1, 6)]
    for own, other in ((POSITIVE, NEGATIVE), (NEGATIVE, POSITIVE)):
        for place, word in enumerate(own):
            near = [own[(place + step) % len(own)] for step in (1, 2)]
            table[word] = [NEUTRAL[place], NEUTRAL[place + 7], *near, other[place]]
    return table


TABLE = _table()


def keyword_texts(count: int, seed: int, num_words: int = 10) -> tuple[list[str], list[str]]:
    """Ten words, three of them keywords of one side, and the side."""
    rng = random.Random(seed)
    texts, labels = [], []
    for _ in range(count):
        side = rng.choice(["neg", "pos"])
        words = [rng.choice(NEUTRAL) for _ in range(num_words)]
        for place in rng.sample(range(num_words), 3):
            words[place] = rng.choice(POSITIVE if side == "pos" else NEGATIVE)
        texts.append(" ".join(words))
        labels.append(side)
    return texts, labels


@cache
def _trained_folder() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory()
    base = save_tiny("bert", Path(folder.name) / "base", num_layers=2, dropout=0.0)
    settings = TrainConfig(method="finetune", epochs=4, learning_rate=1e-3, batch_size=16, dev_fraction=0.0)
    classifier = RsmiClassifier(str(base), RsmiConfig.variant("plain", max_length=32), settings, seed=0)
    classifier.fit(*keyword_texts(400, seed=0)).save_pretrained(Path(folder.name) / "trained")
    return folder


def keyword_classifier(variant: str, **settings: object) -> RsmiClassifier:
    """The trained model (once a session) under a variant of the method."""
    own = {"max_length": 32, "noise_layers": 2, "second_votes": 9, "num_masks": 1, "num_candidates": 3, **settings}
    config = RsmiConfig(**own).as_variant(variant)  # type: ignore[arg-type]
    return RsmiClassifier.from_pretrained(Path(_trained_folder().name) / "trained", config, seed=0)


SMOOTHED = {
    "l2-hidden": {"noise_std": 0.1},
    "l2-embedding": {"embedding_noise_std": 0.02},
    "l0-mask": {"word_mask_rate": 0.2},
    "edit": {"word_deletion_rate": 0.2},
    "synonym": {"substitution": True},
}
"""Settings under which the model can be certified, by the kind of certificate."""


def smoothed_classifier(kind: str, synonyms: SynonymTable, **settings: object) -> RsmiClassifier:
    """The trained model with the randomness of a kind of certificate, and no other."""
    classifier = keyword_classifier("no-mask", noise_std=0.0)
    classifier.config = updated(classifier.config_, **{**SMOOTHED[kind], **settings})
    classifier.synonyms = synonyms
    return classifier
