"""A separable toy task and small settings, for tests that train or predict."""

from __future__ import annotations

from rsmi import RsmiConfig, TrainConfig
from rsmi.method.substitution import SynonymTable
from rsmi.records import AttackRecord

_POSITIVE = ("good great fine joy", "great film love joy", "warm love good story", "a fine cast and good music")
_NEGATIVE = ("bad dull poor bore", "hate bad plot cold", "cold poor dull end", "a poor cast and bad music")

TEXTS = list(_POSITIVE + _NEGATIVE) * 6
LABELS = (["pos"] * 4 + ["neg"] * 4) * 6
PAIRS = [(text, "the end") for text in TEXTS]

CONFIG = RsmiConfig(noise_std=0.5, noise_layers=2, num_masks=1, num_candidates=3, second_votes=15, max_length=32)
TRAIN = TrainConfig(epochs=1, learning_rate=1e-3, batch_size=8, dev_fraction=0.0)
SYNONYMS = SynonymTable.from_dict({"good": ["great", "fine"], "bad": ["poor"], "film": ["movie"], "cold": ["dull"]})

FAILED = AttackRecord(
    attack="textfooler",
    original="a fine film",
    adversarial="a good film",
    label="pos",
    outcome="failed",
    label_before="pos",
    label_after="pos",
    gold_before=0.9,
    gold_after=0.8,
    queries=10,
    budget_hit=False,
    num_words=3,
    words_changed=1,
    fresh_draws=0,
    fresh_flips=0,
)
"""An attack that came to nothing."""
