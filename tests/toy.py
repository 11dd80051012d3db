"""A separable toy task and small settings, for tests that train or predict."""

from __future__ import annotations

from rsmi import RsmiConfig, TrainConfig
from rsmi.method.substitution import SynonymTable

_POSITIVE = ("good great fine joy", "great film love joy", "warm love good story", "a fine cast and good music")
_NEGATIVE = ("bad dull poor bore", "hate bad plot cold", "cold poor dull end", "a poor cast and bad music")

TEXTS = list(_POSITIVE + _NEGATIVE) * 6
LABELS = (["pos"] * 4 + ["neg"] * 4) * 6
PAIRS = [(text, "the end") for text in TEXTS]

CONFIG = RsmiConfig(noise_std=0.5, noise_layers=2, num_masks=1, num_candidates=3, second_votes=15, max_length=32)
TRAIN = TrainConfig(epochs=1, learning_rate=1e-3, batch_size=8, dev_fraction=0.0)
SYNONYMS = SynonymTable.from_dict({"good": ["great", "fine"], "bad": ["poor"], "film": ["movie"], "cold": ["dull"]})
