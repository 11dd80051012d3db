"""A text-classification pipeline of transformers, as something to attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from rsmi.errors import CheckpointError, InputError, TargetError, UnsupportedModelError
from rsmi.method.checkpoint import fingerprint
from rsmi.method.encoder import max_tokens
from rsmi.method.inputs import as_count
from rsmi.method.pretrained import locate, plain_errors, quiet
from rsmi.method.untrusted import refuse_untrusted
from rsmi.pipeline import RsmiPipeline
from rsmi.records import Label, TextInput
from rsmi.seeds import global_state_kept
from rsmi.targets.answers import AnswerReader, UnexpectedAnswer
from rsmi.targets.base import ForeignTarget, shown

_TASK = "text-classification"


class PipelineTarget(ForeignTarget):
    """A pipeline, asked for the scores of all classes. Texts longer than its model reads are cut, as it would cut them.

    Args:
        pipe: What `transformers.pipeline("text-classification", ...)` returned.
        classes: What the data calls its classes, in the order of the model's ids; by default the model's own names.
        batch_size: Texts of one forward pass.
        randomised: Whether it may answer the same text differently.
        name: What messages and records call it; by default the name that its model was loaded by.

    Raises:
        InputError: If it is another pipeline, or our own, whose classifier is a target itself.
        UnsupportedModelError: If its model cannot be attacked as it is.
    """

    def __init__(
        self,
        pipe: Any,
        *,
        classes: Sequence[Label] | None = None,
        batch_size: int = 32,
        randomised: bool = False,
        name: str | None = None,
    ) -> None:
        if isinstance(pipe, RsmiPipeline):
            raise InputError("expected a pipeline of transformers, got one of rsmi; attack its classifier itself")
        task = getattr(pipe, "task", None)
        model: Any = getattr(pipe, "model", None)
        if task != _TASK or not isinstance(model, torch.nn.Module):
            raise InputError(
                f"expected a pipeline of transformers for {_TASK}, got {task or type(pipe).__name__!r}; wrap anything "
                "else in a function from texts to probabilities: CallableTarget"
            )
        called = name or str(getattr(model.config, "_name_or_path", "")) or type(model).__name__
        if model.training:
            raise UnsupportedModelError(
                f"{called}: expected a model in evaluation mode, got one in training mode, whose dropout makes its "
                "answers random; call pipe.model.eval()"
            )
        self._theirs = class_names(pipe)
        if len(self._theirs) < 2:
            raise UnsupportedModelError(
                f"{called}: expected a model with two classes or more, got {len(self._theirs)}; one with a single "
                "output needs a function from texts to the probabilities of both classes: CallableTarget"
            )
        own = self._theirs if classes is None else tuple(classes)
        if len(own) != len(self._theirs):
            raise UnsupportedModelError(
                f"{called}: expected a name for each of its classes {list(self._theirs)}, got {list(own)}"
            )
        super().__init__(called, own, randomised)
        self.pipe, self._model = pipe, model
        self._reader = AnswerReader(self._theirs)
        # padding needs a token, and a batch of one needs none
        paddable = getattr(getattr(pipe, "tokenizer", None), "pad_token_id", None) is not None
        self.batch_size = as_count(batch_size, "batch_size", 1) if paddable else 1

    def answers(self, texts: list[TextInput]) -> list[list[float]]:
        """Ask the pipeline, short texts first: those of about one length are padded least."""
        order = sorted(range(len(texts)), key=lambda i: sum(map(len, texts[i])))
        told = self.pipe([_as_input(texts[i]) for i in order], top_k=None, batch_size=self.batch_size, **self._cut)
        rows: list[list[float]] = [[] for _ in texts]
        for place, answer in zip(order, told, strict=True):
            try:
                rows[place] = self._reader.row(answer)
            except UnexpectedAnswer as error:
                raise TargetError(f"{self.name}: {error}; the answer was {shown(answer)}") from error
        return rows

    @property
    def _cut(self) -> dict[str, Any]:
        """How to cut long texts, where the pipeline was not told itself."""
        told = getattr(self.pipe, "_preprocess_params", {})
        choices: dict[str, Any] = {} if "truncation" in told else {"truncation": True}
        limits = [limit for limit in (max_tokens(self._model), self._tokenizer_limit) if limit is not None]
        return choices if "max_length" in told or not limits else {**choices, "max_length": min(limits)}

    @property
    def _tokenizer_limit(self) -> int | None:
        limit = getattr(getattr(self.pipe, "tokenizer", None), "model_max_length", None)
        return limit if isinstance(limit, int) and limit < 2**30 else None  # 10**30 where nobody set it

    @property
    def about(self) -> dict[str, Any]:
        """Its name and weights."""
        config = {"classes": self.classes_.tolist(), "their_classes": list(self._theirs), "randomised": self.randomised}
        weights = fingerprint(self._model, tuple(self.classes_.tolist()))
        return {"name": self.name, "kind": "pipeline", "fingerprint": weights, "config": config}


def open_pipeline(source: str, device: torch.device, dtype: torch.dtype) -> Any:
    """Return a pipeline around a trained classifier: safetensors weights and no code of its own.

    Args:
        source: A folder or a hub id.
        device: Where to put it.
        dtype: Type of its weights.

    Raises:
        CheckpointError: If it cannot be loaded, must not be, or is not a trained classifier.
    """
    location = locate(source)
    with plain_errors(source), quiet(), global_state_kept():  # transformers draws a missing head globally
        refuse_untrusted(source, location)
        tokenizer = AutoTokenizer.from_pretrained(location, trust_remote_code=False)
        model, info = AutoModelForSequenceClassification.from_pretrained(
            location, dtype=dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
        missing = sorted(info["missing_keys"])
        if missing:
            raise CheckpointError(
                f"{source}: expected a trained classifier, {len(missing)} of its weights are missing (the first: "
                f"{missing[0]}); train it first, for example with rsmi train DATA --base {source} --out FOLDER"
            )
        return pipeline(_TASK, model=model.eval(), tokenizer=tokenizer, device=device)


def class_names(pipe: Any) -> tuple[str, ...]:
    """Return what the model of a pipeline calls its classes, in the order of their ids."""
    names = pipe.model.config.id2label
    return tuple(str(names[i]) for i in sorted(names))


def _as_input(text: TextInput) -> str | dict[str, str]:
    return text if isinstance(text, str) else {"text": text[0], "text_pair": text[1]}
