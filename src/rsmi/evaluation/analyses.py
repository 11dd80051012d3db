"""The paper's analyses of a model: its layers, its copies, its luck and its cost."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rsmi.attacks.base import FRESH
from rsmi.classifier import RsmiClassifier
from rsmi.errors import InputError
from rsmi.method.encoder import evaluating
from rsmi.method.engine import Engine
from rsmi.method.noise import noisy, row_noise, shifted_by_noise
from rsmi.method.spread import watched
from rsmi.method.tokens import Batch, by_length, collate
from rsmi.records import AttackRecord, Label, TextInput
from rsmi.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDistance:
    """How far apart two texts are after a layer, over many pairs (the paper's Figure 2)."""

    layer: int
    l2: float
    """Mean distance of the two hidden states, each the mean over its tokens."""
    cosine: float
    """Mean cosine of the two."""
    l2_error: float
    """Standard error of `l2` over the pairs."""
    cosine_error: float
    """Standard error of `cosine`."""
    pairs: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


def layer_distances(classifier: RsmiClassifier, pairs: Sequence[tuple[TextInput, TextInput]]) -> list[LayerDistance]:
    """Compare the hidden states of clean texts and their adversarial versions after every layer.

    Noise is on, as in every pass of the model, and drawn anew for each text; masks are off, so that all tokens count.

    Args:
        classifier: A classifier with a seed; without one noise is drawn from seed 0.
        pairs: Clean and adversarial texts.
    """
    if not pairs:
        raise InputError("expected pairs of a clean and an adversarial text, got none")
    engine = classifier.engine()
    sides = [_hidden_means(engine, [pair[side] for pair in pairs], side) for side in (0, 1)]
    found = []
    for layer, (clean, changed) in enumerate(zip(*sides, strict=True)):
        l2 = (clean - changed).norm(dim=1)
        cosine = nn.functional.cosine_similarity(clean, changed, dim=1)
        found.append(
            LayerDistance(
                layer=layer,
                l2=float(l2.mean()),
                cosine=float(cosine.mean()),
                l2_error=_standard_error(l2),
                cosine_error=_standard_error(cosine),
                pairs=len(pairs),
            )
        )
    return found


def _standard_error(values: Tensor) -> float:
    return float(values.std() / len(values) ** 0.5) if len(values) > 1 else 0.0


def _hidden_means(engine: Engine, texts: Sequence[TextInput], side: int) -> list[Tensor]:
    """Return the mean hidden state of each text after every layer: (texts, width) a layer."""
    encoder, plan = engine.loaded.encoder, engine.plan
    rows = engine.encode(texts)
    means = [torch.empty(len(rows), 0)] * encoder.num_layers
    with engine.lock, torch.inference_mode(), evaluating(encoder.model):
        for group in by_length([len(row) for row in rows], engine.token_budget):
            batch = collate([rows[i] for i in group], engine.loaded.tokenizer.pad_token_id).to(encoder.device)
            source = row_noise([derive(engine.seed or 0, "layers", side, i) for i in group], batch.lengths)
            with noisy(encoder.layers, plan, source), watched(encoder.layers) as seen:
                encoder.logits(batch, shifted_by_noise(encoder, plan, batch, source))
            for number, hidden in seen.items():
                own = _mean(hidden, batch)
                if means[number].shape[1] == 0:
                    means[number] = torch.empty(len(rows), own.shape[1])
                means[number][group] = own
    return means


def _mean(hidden: Tensor, batch: Batch) -> Tensor:
    weights = batch.attention_mask.unsqueeze(-1).to(hidden)
    return ((hidden * weights).sum(1) / weights.sum(1)).float().cpu()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """Accuracy over independent runs on the same texts (the paper's Figure 4)."""

    accuracies: tuple[float, ...]
    """One a run."""
    texts: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"texts": self.texts, **spread_of(self.accuracies), "accuracies": list(self.accuracies)}


def stability(
    classifier: RsmiClassifier,
    texts: Sequence[TextInput],
    labels: Sequence[Label],
    runs: int,
    progress: Callable[[Sequence[int]], Any] = lambda draws: draws,
    first_draw: int = 0,
) -> Stability:
    """Classify the same texts in many independent runs.

    Args:
        classifier: A classifier with a seed: run after run takes its next draw.
        texts: Clean texts, or texts that fooled it once.
        labels: Their true classes.
        runs: How often.
        progress: Wraps the numbers of the runs, to show a bar.
        first_draw: Of the first run.
    """
    if len(texts) != len(labels) or not texts or runs < 1:
        raise InputError(
            f"expected texts, as many labels and a run or more, got {len(texts)}, {len(labels)} and {runs}"
        )
    golds = np.array(labels)
    accuracies = []
    for draw in progress(range(first_draw, first_draw + runs)):
        winners = classifier.classes_[classifier.query(list(texts), draw).argmax(1)]
        accuracies.append(float((winners == golds).mean()))
    return Stability(accuracies=tuple(accuracies), texts=len(texts))


def stability_of(
    classifier: RsmiClassifier,
    records: Sequence[AttackRecord],
    runs: int,
    progress: Callable[[str, Sequence[int]], Any] = lambda _name, draws: draws,
    clean: tuple[Sequence[TextInput], Sequence[Label]] | None = None,
) -> dict[str, Stability]:
    """Classify the texts of an attack in many independent runs: `clean` ones, and the `adversarial` that fooled it.

    The draws are not those that the attack was answered by: under these adversarial texts are wrong by choice. A set
    without texts is left out.

    Args:
        classifier: A classifier with a seed.
        records: Of the attack.
        runs: How often.
        progress: Gets the name of a set and the numbers of its runs; see `stability`.
        clean: Texts and their true classes; None takes all texts of the records, those answered wrong, too.
    """
    fooled = [record for record in records if record.outcome == "succeeded"]
    sets = {
        "clean": clean or ([record.original for record in records], [record.label for record in records]),
        "adversarial": ([record.adversarial for record in fooled], [record.label for record in fooled]),
    }
    return {
        name: stability(classifier, texts, labels, runs, partial(progress, name), FRESH)
        for name, (texts, labels) in sets.items()
        if len(texts)
    }


def spread_of(values: Sequence[float]) -> dict[str, float | int]:
    """Return mean, standard deviation, largest and least of some runs (the paper's Table 5)."""
    if not values:
        raise InputError("expected values of one run or more, got none")
    return {
        "n": len(values),
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else 0.0,
        "max": max(values),
        "min": min(values),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceTime:
    """What predictions of a model cost (the paper's Table 8)."""

    name: str
    seconds: tuple[float, ...]
    """Of all texts, one a repeat."""
    ratios: tuple[float, ...]
    """To the first model, repeat by repeat."""
    texts: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "ratio": spread_of(self.ratios)}


def inference_times(
    classifiers: Mapping[str, RsmiClassifier], texts: Sequence[TextInput], repeats: int = 5
) -> list[InferenceTime]:
    """Time predictions of several models by turns, so that what else runs on the machine slows all of them.

    Args:
        classifiers: The first one is what the others are compared with.
        texts: What they classify.
        repeats: Rounds, after one to warm up.
    """
    if not classifiers or not texts or repeats < 1:
        raise InputError("expected a classifier, texts and a repeat or more, got none of one of them")
    seconds: dict[str, list[float]] = {name: [] for name in classifiers}
    for number in range(repeats + 1):
        for name, classifier in classifiers.items():
            started = time.perf_counter()
            classifier.predict(list(texts))
            if number:
                seconds[name].append(time.perf_counter() - started)
    return [
        InferenceTime(name=name, seconds=tuple(seconds[name]), ratios=ratios, texts=len(texts))
        for name, ratios in to_first(seconds).items()
    ]


def to_first(seconds: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Return times as multiples of those that come first, repeat by repeat."""
    base = next(iter(seconds.values()))
    return {name: tuple(one / unit for one, unit in zip(own, base, strict=True)) for name, own in seconds.items()}


def fooled_pairs(records: Sequence[AttackRecord]) -> list[tuple[TextInput, TextInput]]:
    """Return the clean and the adversarial text of every success among records."""
    return [(record.original, record.adversarial) for record in records if record.outcome == "succeeded"]


def copies_settings(counts: Sequence[int], two_step: bool) -> list[dict[str, Any]]:
    """Return settings with ever more copies, with or without step two (the paper's Figure 3).

    With two steps `counts` are the copies of step two, step one has as many as it may, up to 5; without, of the only
    step.
    """
    if two_step:
        return [{"two_step": True, "first_votes": min(5, count), "second_votes": count} for count in counts]
    return [{"two_step": False, "first_votes": count} for count in counts]
