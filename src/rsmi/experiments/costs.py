"""A step -> what it is expected to cost, in floating-point operations: for plans, and for the time that is left."""

from __future__ import annotations

from typing import Final

from rsmi.config import RsmiConfig
from rsmi.evaluation.suite import PAPER_ATTACKS
from rsmi.experiments.grids import CLEAN_TEXTS
from rsmi.experiments.paper import figure_of
from rsmi.experiments.scale import Scale
from rsmi.experiments.specs import Attacked, Measured, Step, Trained
from rsmi.settings import updated

_WORDS: Final = {"imdb": 230, "ag_news": 39, "qnli": 37}
_TRAIN: Final = {"imdb": 22_500, "ag_news": 108_000, "qnli": 94_000}
_TEST: Final = {"imdb": 25_000, "ag_news": 7_600, "qnli": 5_463}
_TOKENS: Final = 1.35  # tokens a word
_UPDATE: Final = {"finetune": 3.0, "safer": 3.0, "advaug": 3.0, "rsmi": 5.0, "freelb": 9.0, "infobert": 11.0}
_BACKWARD, _ESCALATED = 2.0, 0.3  # of a forward pass, without gradients of weights; share of texts that go on


def cost_of(step: Step, scale: Scale) -> float:
    """Return floating-point operations, roughly; the paper's own counts of queries stand for ours."""
    if isinstance(step, Trained):
        texts = min(_TRAIN.get(step.data, 10_000), scale.texts_of(step.data) or 10**9)
        epochs = scale.preset(step).train_config.epochs
        return texts * epochs * _UPDATE[step.method] * _forward(step, scale)
    if isinstance(step, Attacked):
        num = scale.augmented if step.purpose == "augment" else scale.num
        config = updated(scale.preset(step.model).config, **dict(step.changes))
        return num * _queries(step, scale) * passes_of(config) * _forward(step.model, scale)
    return _measure(step, scale)


def passes_of(config: RsmiConfig) -> float:
    """Return forward passes of a prediction, roughly."""
    saliency = 1 + _BACKWARD if config.masking == "gradient" else 0.0
    return saliency + config.first_votes + (_ESCALATED * config.second_votes if config.two_step else 0.0)


def _measure(step: Measured, scale: Scale) -> float:
    total = 0.0
    for model, own in step.pairs:
        config = updated(scale.preset(model).config, **dict(own))
        texts = {
            "accuracy": min(_TEST.get(model.data, 1000), scale.test_texts or 10**9),
            "layers": scale.num,
            "stability": scale.runs * (CLEAN_TEXTS + scale.num),
            "training-time": 4 * scale.timed * _UPDATE[model.method] / passes_of(config),
            "inference-time": 6 * scale.timed,
        }[step.what]
        total += texts * passes_of(config) * _forward(model, scale)
    return total


def _forward(model: Trained, scale: Scale) -> float:
    tokens = min(_words(model.data, scale) * _TOKENS, scale.preset(model).config.max_length)
    return 2e6 * scale.encoders[model.encoder].parameters * tokens


def _words(data: str, scale: Scale) -> float:
    return min(_WORDS.get(data, 40), scale.max_words)


def _queries(cell: Attacked, scale: Scale) -> float:
    """Return the paper's mean number of queries, less what a cut of the texts saves."""
    row = "no-mask" if dict(cell.changes).get("masking") == "none" else cell.model.method
    table = "table7" if cell.model.data == "qnli" else "table1"
    place = PAPER_ATTACKS.index(cell.attack) if cell.attack in PAPER_ATTACKS else 0
    known = figure_of(table, cell.model.data, "roberta-base", row, "AvgQ", place)
    return float(known or 300) * _words(cell.model.data, scale) / _WORDS.get(cell.model.data, 40)
