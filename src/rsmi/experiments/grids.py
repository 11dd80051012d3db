"""A scale -> the models, attacks and measurements of each table and figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from rsmi.config import Method
from rsmi.evaluation.analyses import copies_settings
from rsmi.evaluation.suite import PAPER_ATTACKS
from rsmi.experiments.scale import Scale
from rsmi.experiments.specs import Attacked, Changes, Measured, Step, Trained, changes, variant

COMPARED: Final = ("imdb", "ag_news")
"""Data of Tables 1, 2 and 11."""
NO_MASK: Final = changes(masking="none")
"""RSMI-NoMask: the model that RSMI trained, asked without masks."""
ROWS: Final[tuple[tuple[str, Method, Changes], ...]] = (
    ("finetune", "finetune", ()),
    ("freelb", "freelb", ()),
    ("infobert", "infobert", ()),
    ("safer", "safer", ()),
    ("advaug", "advaug", ()),
    ("no-mask", "rsmi", NO_MASK),
    ("rsmi", "rsmi", ()),
)
"""The paper's rows: name, how the model is trained, how it is asked."""
PAIR_ROWS: Final = tuple(row for row in ROWS if row[0] != "advaug")
"""Rows of Tables 7 and 8."""
STABILITY: Final[tuple[Method, ...]] = ("freelb", "infobert", "rsmi")
"""Methods of Table 5."""
SETTINGS: Final = (
    (0.2, 2, 3),
    (0.2, 2, 4),
    (0.2, 2, 5),
    (0.3, 2, 3),
    (0.4, 2, 3),
    (0.4, 3, 3),
    (0.4, 4, 3),
)
"""Sigma, M and number of noise layers in Table 4."""

CLEAN_TEXTS: Final = 1000
"""Of Figure 4, as in the paper, however many are attacked."""


def nothing(_scale: Scale) -> tuple[Step, ...]:
    """Return no steps."""
    return ()


def cells(encoder: str, data: str, row: str, attack: str, seeds: tuple[int, ...]) -> tuple[Attacked, ...]:
    """Return a cell of Table 1 or 7, once for each seed."""
    _, method, asked = next(each for each in ROWS if each[0] == row)
    model = Trained(encoder=encoder, data=data, method=method)
    return tuple(Attacked(model=replace(model, seed=seed), attack=attack, changes=asked) for seed in seeds)


def table1(scale: Scale) -> tuple[Step, ...]:
    """Seven models, three attacks."""
    return tuple(
        cell
        for data in COMPARED
        for encoder in scale.compared
        for row, _, _ in ROWS
        for attack in PAPER_ATTACKS
        for cell in cells(encoder, data, row, attack, scale.seeds)
    )


def table2(scale: Scale) -> tuple[Step, ...]:
    """Fine-tuned and RSMI models under TextFooler."""
    return tuple(
        cell
        for data in COMPARED
        for encoder in scale.large
        for row in ("finetune", "rsmi")
        for cell in cells(encoder, data, row, "textfooler", (0,))
    )


def masked(scale: Scale, kind: str, masks: int, copies: int = 1) -> Attacked:
    """Return a cell of Table 3: `rm` or `gm`, M masks, k copies."""
    own = variant(kind, num_masks=masks)
    model = Trained(encoder=scale.studied, data="imdb", changes=own)
    return Attacked(model=model, changes=changes(first_votes=copies) if kind == "rm" else ())


def table3(scale: Scale) -> tuple[Step, ...]:
    """Random masks with k copies against one gradient-guided mask."""
    found: list[Step] = []
    for masks in scale.masks:
        found += [masked(scale, "rm", masks, copies) for copies in scale.copies]
        found.append(masked(scale, "gm", masks))
    return tuple(found)


def setting(scale: Scale, noise_std: float, masks: int, layers: int) -> Attacked:
    """Return a row of Table 4."""
    own = changes(noise_std=noise_std, num_masks=masks, noise_layers=layers)
    return Attacked(model=Trained(encoder=scale.studied, data="imdb", changes=own))


def table4(scale: Scale) -> tuple[Step, ...]:
    """Noise, masks, noise layers."""
    return tuple(setting(scale, *each) for each in SETTINGS)


def stable(scale: Scale, encoder: str, method: Method) -> tuple[tuple[Attacked, Measured], ...]:
    """Return what Table 5 needs of a method: for each seed the attack, and the accuracy on the whole test set."""
    models = [Trained(encoder=encoder, data="imdb", method=method, seed=seed) for seed in scale.stability_seeds]
    return tuple((Attacked(model=model), Measured(what="accuracy", models=(model,))) for model in models)


def table5(scale: Scale) -> tuple[Step, ...]:
    """Three seeds of three methods."""
    return tuple(
        step
        for encoder in scale.compared
        for method in STABILITY
        for pair in stable(scale, encoder, method)
        for step in pair
    )


def voted(encoder: str, data: str, attack: str) -> tuple[Attacked, Attacked]:
    """Return RSMI with averaged logits and with votes."""
    (averaged,) = cells(encoder, data, "rsmi", attack, (0,))
    return averaged, replace(averaged, protocol="vote")


def table6(scale: Scale) -> tuple[Step, ...]:
    """Votes against averaged logits."""
    return tuple(
        cell
        for data in (*COMPARED, "qnli")
        for encoder in scale.compared
        for attack in PAPER_ATTACKS[:2]
        for cell in voted(encoder, data, attack)
    )


def table7(scale: Scale) -> tuple[Step, ...]:
    """Six models on QNLI."""
    return tuple(
        cell
        for row, _, _ in PAIR_ROWS
        for attack in PAPER_ATTACKS
        for cell in cells(scale.pairs, "qnli", row, attack, scale.seeds)
    )


def times(scale: Scale) -> tuple[Measured, Measured]:
    """Return training and inference times of Table 8; RSMI is asked as in the paper's table, and in full."""
    models = [Trained(encoder=scale.pairs, data="qnli", method=method) for _, method, _ in PAIR_ROWS]
    asked: list[Changes] = [own for _, _, own in PAIR_ROWS]
    one_pass = changes(first_votes=1, two_step=False)
    asked[-2] = changes(masking="none", first_votes=1, two_step=False)  # the paper's factor of 1 allows one pass only
    trained = dict.fromkeys(models)
    return (
        Measured(what="training-time", models=tuple(trained)),
        Measured(what="inference-time", models=(*models, models[-1]), changes=(*asked[:-1], one_pass, ())),
    )


def table8(scale: Scale) -> tuple[Step, ...]:
    """Times against the fine-tuned model's."""
    return times(scale)


def splits(data: str) -> Measured:
    """Return the sizes of a data set."""
    return Measured(what="splits", data=data)


def table10(_scale: Scale) -> tuple[Step, ...]:
    """Sizes of the data."""
    return tuple(splits(data) for data in (*COMPARED, "qnli"))


def table11(scale: Scale) -> tuple[Step, ...]:
    """AdvAug's attacks on training texts."""
    return tuple(
        Trained(encoder=encoder, data=data, method="advaug") for data in COMPARED for encoder in scale.compared
    )


def hidden(encoder: str, data: str, row: str) -> Measured:
    """Return the layers of a model between the clean and the adversarial texts that fooled it."""
    (cell,) = cells(encoder, data, row, "textfooler", (0,))
    return Measured(what="layers", models=(cell.model,), attacked=cell)


def figure2(scale: Scale) -> tuple[Step, ...]:
    """Layers of fine-tuned and RSMI models."""
    return tuple(hidden(encoder, "ag_news", row) for encoder in scale.compared for row in ("finetune", "rsmi"))


def copied(scale: Scale, encoder: str, two_step: bool) -> tuple[Attacked, ...]:
    """Return RSMI with ever more copies; where that is how Table 1 asks it, the same cell.

    One copy always agrees with itself, so that there is nothing for a second step to do: one cell for both ways.
    """
    (cell,) = cells(encoder, "ag_news", "rsmi", "textfooler", (0,))
    usual = scale.preset(cell.model).config.to_dict()
    asked = [
        own | {"two_step": False} if own["first_votes"] == 1 else own for own in copies_settings(scale.counts, two_step)
    ]
    return tuple(replace(cell, changes=_differing(own, usual)) for own in asked)


def _differing(own: Mapping[str, Any], usual: Mapping[str, Any]) -> Changes:
    """Return the settings that are not as usual and matter: without a second step its votes do not."""
    idle = () if own["two_step"] else ("second_votes",)
    return changes(**{name: value for name, value in own.items() if usual[name] != value and name not in idle})


def figure3(scale: Scale) -> tuple[Step, ...]:
    """With and without two steps."""
    return tuple(cell for encoder in scale.compared for two in (False, True) for cell in copied(scale, encoder, two))


def repeated(encoder: str) -> Measured:
    """Return independent runs on clean texts and on those that fooled the model."""
    (cell,) = cells(encoder, "ag_news", "rsmi", "textfooler", (0,))
    return Measured(what="stability", models=(cell.model,), attacked=cell)


def figure4(scale: Scale) -> tuple[Step, ...]:
    """Stochastic stability."""
    return tuple(repeated(encoder) for encoder in scale.compared)
