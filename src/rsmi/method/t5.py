"""Sequence classifiers on the encoder of T5 or mT5 alone; transformers has only the encoder-decoder ones."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import MT5Config, MT5EncoderModel, PretrainedConfig, PreTrainedModel, T5Config, T5EncoderModel
from transformers.modeling_outputs import SequenceClassifierOutput

_UNUSED_WEIGHTS = [r"decoder", r"lm_head"]


class T5EncoderForSequenceClassification(T5EncoderModel):  # type: ignore[misc]
    """T5 encoder, mean over the tokens that are not padding, dropout, linear head."""

    _keys_to_ignore_on_load_unexpected = _UNUSED_WEIGHTS

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.d_model, config.num_labels)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> SequenceClassifierOutput:
        """Return logits, (batch, classes)."""
        return _mean_pooled_logits(self, input_ids, attention_mask)


class MT5EncoderForSequenceClassification(MT5EncoderModel):  # type: ignore[misc]
    """mT5 encoder, mean over the tokens that are not padding, dropout, linear head."""

    _keys_to_ignore_on_load_unexpected = _UNUSED_WEIGHTS

    def __init__(self, config: MT5Config) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.d_model, config.num_labels)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> SequenceClassifierOutput:
        """Return logits, (batch, classes)."""
        return _mean_pooled_logits(self, input_ids, attention_mask)


def encoder_only_class(config: PretrainedConfig) -> type[PreTrainedModel] | None:
    """Return the class above that fits `config`, or None where it does not describe a T5 encoder alone."""
    if config.model_type not in ("t5", "mt5"):
        return None
    names = getattr(config, "architectures", None) or []
    if config.is_encoder_decoder and not any("Encoder" in name for name in names):
        return None
    return T5EncoderForSequenceClassification if config.model_type == "t5" else MT5EncoderForSequenceClassification


def _mean_pooled_logits(model: Any, input_ids: Tensor, attention_mask: Tensor) -> SequenceClassifierOutput:
    hidden = model.encoder(input_ids=input_ids, attention_mask=attention_mask)[0]
    weights = attention_mask.to(hidden.dtype).unsqueeze(-1)
    pooled = (hidden * weights).sum(1) / weights.sum(1).clamp_min(1.0)
    return SequenceClassifierOutput(logits=model.classifier(model.dropout(pooled)))
