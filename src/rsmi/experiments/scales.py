"""`paper`: the exact setting of the paper. `small`: what a machine without a GPU can do of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rsmi.experiments.scale import Encoder, Learning, Scale

PAPER: Final = Scale(
    name="paper",
    encoders={
        "bert-base": Encoder(base="bert-base-uncased", label="BERT-base", parameters=85),
        "roberta-base": Encoder(base="roberta-base", label="RoBERTa-base", parameters=85),
        "bert-large": Encoder(base="bert-large-uncased", label="BERT-Large", parameters=303),
        "roberta-large": Encoder(base="roberta-large", label="RoBERTa-Large", parameters=303),
        "t5-large": Encoder(base="t5-large", label="T5-Large", parameters=302),
    },
    compared=("bert-base", "roberta-base"),
    large=("bert-large", "roberta-large", "t5-large"),
    studied="roberta-base",
    pairs="roberta-base",
    seeds=(0, 1, 2),
    stability_seeds=(0, 1, 2),
    num=1000,
    max_words=256,
    train_texts=None,
    test_texts=None,
    augmented=10_000,
    masks=(1, 2, 3, 4, 5),
    copies=(1, 5, 10, 50),
    counts=(1, 5, 10, 25, 50),
    runs=1000,
    timed=1000,
)
"""The paper's setting: needs GPUs and a model hub."""

# MiniLM's hidden states spread by about 0.5 (benchmarks/results/spread.md), so that the paper's sigma of 0.2 is about
# 0.4 of it; those of the other two spread by about 0.2 and by 21 to 76, where an absolute sigma means something else.
_SPREAD: Final = {"noise_std": 0.4, "noise_unit": "spread"}
SMALL: Final = Scale(
    name="small",
    encoders={
        "bert-base": Encoder(base="minilm", label="MiniLM-L6 (BERT, 6 x 384)", parameters=10.6),
        "roberta-base": Encoder(
            base="roberta-granite-30m",
            label="granite-30m (RoBERTa, 6 x 384, dequantised int8)",
            parameters=10.6,
            settings=_SPREAD,
            rates=(3e-4, 3e-4),
        ),
        "t5-large": Encoder(
            base="t5-flan-small-encoder",
            label="flan-T5-small encoder (8 x 512, dequantised int8)",
            parameters=18.9,
            settings=_SPREAD,
            rates=(1e-3, 1e-3),
        ),
    },
    compared=("bert-base",),
    large=("roberta-base", "t5-large"),
    studied="bert-base",
    pairs="bert-base",
    seeds=(0,),
    stability_seeds=(0, 1, 2),
    num=100,
    max_words=24,
    train_texts=2000,
    test_texts=500,
    augmented=500,
    masks=(1, 2, 4),
    copies=(1, 5, 10),
    counts=(1, 5, 10),
    runs=100,
    timed=100,
    backend="int8",
    presets=False,
    settings={"max_length": 64, "second_votes": 10},
    own_settings={"rsmi": {"num_masks": 1}, "safer": {"first_votes": 10}},
    training={"epochs": 2, "batch_size": 16, "group_by_length": True},
    own_training={"freelb": {"ascent_step_size": 0.03, "ascent_radius": 0.12, "ascent_start": 0.03}},
    rates=(1e-4, 5e-5),
    harder={
        "qnli": Learning(
            texts=4000,
            epochs=3,
            rates=(1e-4, 5e-5),
            own_training={"infobert": {"ascent_step_size": 0.03, "ascent_radius": 0.12, "ascent_start": 0.03}},
        )
    },
)
"""What two cores do in some hours: small encoders, short texts, few of them.

Masks, learning rates and ascents were chosen on dev texts: results/reproduction/choice.md.
"""

SCALES: Final[Mapping[str, Scale]] = {"small": SMALL, "paper": PAPER}
"""Every scale by its name."""


def smoke(scale: Scale, bases: Mapping[str, str], sources: Mapping[str, str]) -> Scale:
    """Return a scale with the same experiments on tiny models and next to no texts: it shows that they run.

    Args:
        scale: Whose experiments.
        bases: A folder of a tiny model for each encoder of the paper.
        sources: A file of a few texts for each data set.
    """
    tiny = {role: replace(own, base=bases[role], settings={}) for role, own in scale.encoders.items()}
    return replace(
        scale,
        name=f"{scale.name}-smoke",
        encoders=tiny,
        seeds=scale.seeds[:2],
        stability_seeds=scale.stability_seeds[:2],
        num=2,
        max_words=8,
        train_texts=32,
        test_texts=4,
        augmented=24,
        masks=scale.masks[:2],
        copies=scale.copies[:2],
        counts=scale.counts[:2],
        runs=2,
        timed=16,
        backend="torch",
        presets=False,
        settings={"max_length": 16, "second_votes": 2, "noise_layers": 1},
        training={"epochs": 3, "batch_size": 8},
        rates=(1e-2, 1e-2),
        own_training={},
        harder={},
        sources=sources,
        stand_in="deepwordbug",
        synonyms={"good": ["fine"], "bad": ["poor"]},
    )
