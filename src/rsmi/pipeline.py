"""A classifier -> an object that is called like a text-classification pipeline of transformers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np

from rsmi.errors import ConfigError, InputError
from rsmi.method.engine import Engine
from rsmi.method.inputs import as_texts

_NOT_GIVEN: Final = ""
"""What transformers takes for a `top_k` that was not given: None already means "all"."""
_WITHOUT_EFFECT: Final = ("batch_size", "num_workers", "padding")
_WAYS_OUT: Final = {
    "max_length": "set RsmiConfig(max_length=...)",
    "return_all_scores": "pass top_k=None",
    "truncation": "texts longer than RsmiConfig.max_length are always cut",
}


class Classifier(Protocol):
    """What a pipeline needs of a classifier."""

    classes_: np.ndarray[Any, Any]

    def engine(self, draw: int = 0) -> Engine:
        """Return the loaded model with the settings in force."""
        ...


class RsmiPipeline:
    """Called like `transformers.pipeline("text-classification")`, and answers in the same shapes.

    A text gives a list with one `{"label", "score"}`, a list of texts a list of them, a dict with `text` and
    `text_pair` one of them. `top_k` (None for all classes) gives a list for each text. A generator, a `Dataset` or any
    other iterable without `tolist` gives an iterator that reads it a few hundred texts at a time.

    Scores are shares of the deciding votes, or of the averaged logits; labels are those of the classifier, so numbers
    stay numbers. Where the sequential rule abstains, the class with the most votes is named: ask `predict` or `explain`
    if that matters. It is no subclass of transformers' `Pipeline`, whose parts would answer without the defense.

    Args:
        classifier: What answers.
        **choices: Defaults of a call: `top_k`, `function_to_apply` (None or "softmax": scores are probabilities
            already), `truncation=True`. `batch_size`, `num_workers` and `padding` are taken and change nothing: batches
            are filled up to the classifier's `token_budget`.
    """

    task = "text-classification"

    def __init__(self, classifier: Classifier, **choices: Any) -> None:
        self.classifier = classifier
        self._top_k = _checked(choices)

    @property
    def model(self) -> Any:
        """The transformers model, which answers without the defense when it is asked by itself."""
        return self.classifier.engine().loaded.encoder.model

    @property
    def tokenizer(self) -> Any:
        """The tokenizer."""
        return self.classifier.engine().loaded.tokenizer

    @property
    def device(self) -> Any:
        """Where the model is."""
        return self.classifier.engine().loaded.encoder.device

    def __call__(self, inputs: Any, **choices: Any) -> Any:
        """Classify texts.

        Args:
            inputs: A text, a `{"text": ..., "text_pair": ...}`, a list of either, or an iterable of either.
            **choices: As in the constructor, for this call.

        Raises:
            InputError: If something cannot be classified.
            ConfigError: If a choice would change what is answered in a way that RSMI cannot follow.
        """
        asked = _checked(choices)
        top_k = self._top_k if asked == _NOT_GIVEN else asked
        engine = self.classifier.engine()  # raises before anything else if there is no trained model
        if isinstance(inputs, (str, Mapping)):
            (scores,) = self._scores(engine, as_texts([_from_dict(inputs)]), top_k)
            return [scores] if isinstance(inputs, str) and asked == _NOT_GIVEN else scores
        if _is_stream(inputs):
            return self._scores(engine, map(_from_dict, _items(inputs)), top_k)
        return list(self._scores(engine, as_texts(_listed(inputs)), top_k))

    def _scores(self, engine: Engine, texts: Iterable[Any], top_k: Any) -> Iterator[Any]:
        classes = self.classifier.classes_.tolist()
        for _, _, outcome in engine.outcomes(texts, "probabilities"):
            row = outcome.decision.probabilities
            order = np.argsort(-row, kind="stable")
            ranked = [{"label": classes[i], "score": float(row[i])} for i in order]
            yield ranked[0] if top_k == _NOT_GIVEN else ranked[:top_k]


def _checked(choices: Mapping[str, Any]) -> Any:
    """Return `top_k`; refuse what cannot be honoured."""
    left = {name: value for name, value in choices.items() if name not in _WITHOUT_EFFECT}
    top_k = left.pop("top_k", _NOT_GIVEN)
    if top_k not in (None, _NOT_GIVEN) and (not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 1):
        raise ConfigError(f"top_k: expected an int of at least 1, or None for all classes; got {top_k!r}")
    function = left.pop("function_to_apply", None)
    name = getattr(function, "value", function)  # transformers has an enum of them
    if name is not None and str(name).lower() != "softmax":
        raise ConfigError(
            f"function_to_apply: expected None or 'softmax', since scores are shares of votes, got {function!r}; ask "
            "the model itself for logits"
        )
    if left.pop("truncation", True) is not True:
        left["truncation"] = choices["truncation"]
    for name, value in left.items():
        raise ConfigError(
            f"{name}: expected an argument that RSMI can honour, got {value!r}; {_WAYS_OUT.get(name, 'leave it out')}"
        )
    return top_k


def _is_stream(inputs: Any) -> bool:
    """Whether to answer one by one. Arrays and pandas columns are in memory anyway, and a table is refused later."""
    if isinstance(inputs, (list, tuple, bytes)) or hasattr(inputs, "tolist") or hasattr(inputs, "columns"):
        return False
    return hasattr(inputs, "__iter__") or (hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__"))


def _items(inputs: Any) -> Iterator[Any]:
    """Yield what is in an iterable, or in a torch `Dataset`, which may know its length and places only."""
    if hasattr(inputs, "__iter__"):
        yield from inputs
    else:
        yield from (inputs[i] for i in range(len(inputs)))


def _listed(inputs: Any) -> Any:
    return [_from_dict(item) for item in inputs] if isinstance(inputs, (list, tuple)) else inputs


def _from_dict(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    if "text" not in item:
        raise InputError(f"expected a dict with text and, for a pair, text_pair; got {sorted(item)}")
    return (item["text"], item["text_pair"]) if item.get("text_pair") is not None else item["text"]
