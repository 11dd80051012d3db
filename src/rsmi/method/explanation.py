"""Outcome -> `Prediction`: numbers back into the user's words."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from rsmi.config import RsmiConfig
from rsmi.method.decision import Array
from rsmi.method.inference import Outcome
from rsmi.method.tokens import Encoded
from rsmi.records import Label, Prediction, TextInput, Token


def explain(
    outcome: Outcome,
    text: TextInput,
    row: Encoded,
    tokenizer: PreTrainedTokenizerBase,
    classes: Sequence[Label],
    config: RsmiConfig,
) -> Prediction:
    """Describe an outcome with labels, tokens and their places in the text."""
    decision, masks = outcome.decision, outcome.masks
    return Prediction(
        text=text,
        label=None if decision.winner is None else classes[decision.winner],
        probabilities={label: float(p) for label, p in zip(classes, decision.probabilities, strict=True)},
        first_votes=_by_class(decision.first_votes, classes),
        second_votes=None if decision.second_votes is None else _by_class(decision.second_votes, classes),
        masked=masks.top if config.stop == "paper" else (),
        candidates=masks.pool,
        masks_wanted=0 if config.masking == "none" else config.num_masks,
        truncated=row.truncated,
        tokens=_tokens(text, row, tokenizer, masks.saliency),
    )


def _by_class(counts: Array, classes: Sequence[Label]) -> dict[Label, int]:
    return {label: int(count) for label, count in zip(classes, counts, strict=True)}


def _tokens(
    text: TextInput,
    row: Encoded,
    tokenizer: PreTrainedTokenizerBase,
    saliency: Array,
) -> tuple[Token, ...]:
    parts = (text,) if isinstance(text, str) else text
    names = tokenizer.convert_ids_to_tokens(list(row.ids))
    tokens = []
    for i, (start, end) in enumerate(row.offsets):
        part = row.sequence[i]
        if part < 0:
            tokens.append(Token(text=str(names[i]), start=-1, end=-1, sequence=-1, saliency=0.0))
        else:
            shown = parts[part][start:end]
            tokens.append(Token(text=shown, start=start, end=end, sequence=part, saliency=float(saliency[i])))
    return tuple(tokens)
