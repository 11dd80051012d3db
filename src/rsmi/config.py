"""Frozen, validated settings of the method and of training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from rsmi.errors import ConfigError
from rsmi.settings import check_types, known_fields, nearest, require

Masking = Literal["gradient", "random", "none"]
Aggregation = Literal["vote", "logit-average"]
Stop = Literal["paper", "sequential"]
NoiseUnit = Literal["absolute", "spread"]
Method = Literal["rsmi", "finetune", "freelb", "infobert", "safer", "advaug"]

_LITERALS: dict[str, Any] = {
    "masking": Masking,
    "aggregation": Aggregation,
    "stop": Stop,
    "noise_unit": NoiseUnit,
    "method": Method,
    "precision": Literal["fp32", "bf16", "fp16"],
}
_OPTIONAL = {"mask_token": str, "micro_batch_size": int, "patience": int, "save_every": int}


@dataclass(frozen=True, slots=True, kw_only=True)
class RsmiConfig:
    """Settings of the method; the defaults are the paper's for BERT on AG News."""

    noise_std: float = 0.2
    """Standard deviation of the noise added after each noise layer (paper: sigma)."""
    noise_unit: NoiseUnit = "absolute"
    """What `noise_std` is measured in: as it is (the paper), or `spread`: in spreads of the encoder's own hidden states
    after that layer, measured once, so that one number suits encoders whose states differ a thousandfold in size."""
    noise_layers: int | tuple[int, ...] = 3
    """How many layers get noise, spread evenly from layer 0 on, or which ones (paper: N_l)."""
    embedding_noise_std: float = 0.0
    """Standard deviation of noise at the word embeddings; the paper has none there."""
    masking: Masking = "gradient"
    """How copies are masked: by loss gradient (RSMI, GM), at random (RM) or not at all (RSMI-NoMask)."""
    num_masks: int = 2
    """Tokens hidden in each copy (paper: M)."""
    num_candidates: int = 5
    """Most salient tokens that the masks of step two are drawn from (paper: N)."""
    saliency_samples: int = 1
    """Noise draws averaged inside the saliency gradient (paper: nu)."""
    first_votes: int = 5
    """Copies voted on in step one (paper: k0)."""
    second_votes: int = 50
    """Copies voted on in step two (paper: k1)."""
    two_step: bool = True
    """Whether an undecided step one goes on to step two; otherwise step one decides alone."""
    stop: Stop = "paper"
    """`paper`: the binomial gate after step one. `sequential`: an exact sequential test that may abstain."""
    stop_confidence: float = 0.98
    """Step one decides if P[Bin(first_votes, 1/2) <= top votes] >= this (paper: alpha).

    Under `stop="sequential"` the chance of a wrong answer is at most 1 - stop_confidence.
    """
    aggregation: Aggregation = "vote"
    """Whether copies vote or their logits are averaged (the paper averages when it is attacked)."""
    substitution: bool = False
    """Whether each copy replaces words by random synonyms (SAFER); needs a table of them, and no masks."""
    word_mask_rate: float = 0.0
    """Share of the words that each copy hides, drawn evenly whatever they are (RanMASK); certified by `l0-mask`."""
    word_deletion_rate: float = 0.0
    """Chance with which each copy leaves a word out (CERT-ED); certified by `edit`."""
    max_length: int = 256
    """Tokens read of a text, special ones included; the model's own limit holds too."""
    mask_token: str | None = None
    """Token that hides another; by default the tokenizer's mask token, or T5's first sentinel."""

    def __post_init__(self) -> None:
        check_types(self, _LITERALS, _OPTIONAL)
        if isinstance(self.noise_layers, tuple):
            require(bool(self.noise_layers), "noise_layers", "at least one index, or a count", self.noise_layers)
            require(
                all(type(i) is int and i >= 0 for i in self.noise_layers)
                and len(set(self.noise_layers)) == len(self.noise_layers),
                "noise_layers",
                "distinct indices counted from 0",
                self.noise_layers,
            )
        else:
            require(self.noise_layers >= 1, "noise_layers", "a count >= 1, or indices", self.noise_layers)
        for name in ("noise_std", "embedding_noise_std"):
            value = getattr(self, name)
            require(math.isfinite(value) and value >= 0, name, "a finite number >= 0", value)
        for name in ("num_masks", "num_candidates", "saliency_samples", "first_votes", "second_votes"):
            require(getattr(self, name) >= 1, name, "an integer >= 1", getattr(self, name))
        require(self.max_length >= 4, "max_length", "an integer >= 4", self.max_length)
        require(0 < self.stop_confidence < 1, "stop_confidence", "a number between 0 and 1", self.stop_confidence)
        if self.masking == "gradient" and self.num_masks > self.num_candidates:
            raise ConfigError(f"num_masks ({self.num_masks}) cannot exceed num_candidates ({self.num_candidates})")
        for name in ("word_mask_rate", "word_deletion_rate"):
            require(0 <= getattr(self, name) < 1, name, "a share in [0, 1)", getattr(self, name))
        drawn = [name for name in ("substitution", "word_mask_rate", "word_deletion_rate") if getattr(self, name)]
        if len(drawn) > 1:
            raise ConfigError(f"expected copies to differ in their words in one way, got {' and '.join(drawn)}")
        if drawn and self.masking != "none":
            raise ConfigError(f'{drawn[0]}={getattr(self, drawn[0])}: expected masking="none", got {self.masking!r}')
        if self.stop == "sequential" and self.aggregation != "vote":
            raise ConfigError('stop="sequential" counts votes; expected aggregation="vote", got "logit-average"')

    @classmethod
    def variant(cls, name: str, **settings: Any) -> RsmiConfig:
        """Return a named variant of the method; `settings` override its fields.

        Args:
            name: `rsmi`, `no-mask` (noise, two steps, no masks), `no-two-step` (step one decides), `rm` (random
                masks, no noise, logits averaged), `gm` (gradient masks, no noise, one deterministic copy), `safer`
                (votes of copies with words replaced by synonyms), `ranmask` (words hidden at random), `deletion` (words
                left out at random) or `plain` (one ordinary forward pass: the undefended model).
            **settings: Fields that differ from the variant's.
        """
        return cls(**{**_variant_fields(name), **settings})

    @classmethod
    def profile(cls, name: str, **settings: Any) -> RsmiConfig:
        """Return settings for those who do not tune; `settings` override them.

        Args:
            name: `fast`, `balanced` or `robust`.
            **settings: Fields that differ from the profile's.
        """
        if name not in PROFILES:
            raise ConfigError(f"profile: expected one of {', '.join(PROFILES)}, got {name!r}{nearest(name, PROFILES)}")
        return cls(**{**PROFILES[name], **settings})

    def as_variant(self, name: str) -> RsmiConfig:
        """Return these settings with the fields that make a variant; see `variant`."""
        return replace(self, **_variant_fields(name))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RsmiConfig:
        """Build from plain JSON values; unknown names are refused."""
        return cls(**known_fields(cls, values))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @property
    def draws_words(self) -> bool:
        """Whether copies differ in their words, not only in masks of tokens and noise."""
        return self.substitution or self.word_mask_rate > 0 or self.word_deletion_rate > 0


# copies that differ in their words, and in nothing else unless asked
_MANY_COPIES = {"masking": "none", "noise_std": 0.0, "two_step": False, "first_votes": 50, "aggregation": "vote"}
VARIANTS: dict[str, dict[str, Any]] = {
    "rsmi": {},
    "no-mask": {"masking": "none"},
    "no-two-step": {"two_step": False},
    "rm": {"masking": "random", "noise_std": 0.0, "two_step": False, "aggregation": "logit-average"},
    "gm": {"noise_std": 0.0, "two_step": False, "first_votes": 1, "aggregation": "logit-average"},
    "safer": {**_MANY_COPIES, "substitution": True},
    "ranmask": {**_MANY_COPIES, "word_mask_rate": 0.7},
    "deletion": {**_MANY_COPIES, "word_deletion_rate": 0.7},
    "plain": {
        "masking": "none",
        "noise_std": 0.0,
        "two_step": False,
        "first_votes": 1,
        "aggregation": "logit-average",
    },
}
"""Fields that set each variant of the paper apart from the full method."""

_SPREAD: dict[str, Any] = {"noise_unit": "spread"}  # one number for all encoders: no absolute one suits two families
PROFILES: dict[str, dict[str, Any]] = {
    "fast": {**_SPREAD, "noise_std": 0.4, "masking": "none", "two_step": False, "first_votes": 1},
    "balanced": {**_SPREAD, "noise_std": 0.4, "masking": "none", "first_votes": 5, "second_votes": 10},
    "robust": {**_SPREAD, "noise_std": 0.4, "num_masks": 1, "first_votes": 5, "second_votes": 10},
}
"""Settings for those who do not tune, chosen on dev texts of three data sets with two encoders: what each costs and
protects is in results/profiles/README.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Settings of training: AdamW, linear schedule, gradient clipping, best epoch on the dev set."""

    method: Method = "rsmi"
    """Objective: `rsmi`, `finetune` for plain cross-entropy, or a baseline: `freelb`, `infobert`, `safer`, `advaug`."""
    epochs: int = 3
    """Passes over the training texts (the paper: 10)."""
    learning_rate: float = 5e-5
    """Peak learning rate (the paper: 1e-5 for RSMI on base models)."""
    batch_size: int = 16
    """Texts per update, over all devices and accumulation steps."""
    micro_batch_size: int | None = None
    """Texts per forward pass; must divide `batch_size`, which is then reached by accumulation."""
    warmup_ratio: float = 0.0
    """Share of the updates in which the learning rate rises from 0."""
    weight_decay: float = 0.0
    """AdamW's decoupled weight decay."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this norm."""
    embedding_step: float = 1.0
    """Scale of the batch-mean gradient added to the word embeddings (paper: beta); 0 leaves it out."""
    ascent_steps: int = 3
    """FreeLB: forward and backward passes an update (its paper: K)."""
    ascent_step_size: float = 0.1
    """FreeLB: length of an ascent step on a text's embeddings (its paper: alpha); choose it on dev data."""
    ascent_radius: float = 0.4
    """FreeLB: radius of the ball the ascent stays in (its paper: epsilon); choose it on dev data."""
    ascent_start: float = 0.1
    """FreeLB: scale of the random start of the ascent."""
    bottleneck_weight: float = 5e-3
    """InfoBERT: weight of the information-bottleneck regulariser (its paper: beta)."""
    anchor_weight: float = 5e-3
    """InfoBERT: weight of the mutual information between anchored features and the whole text (its paper: alpha)."""
    anchor_low: float = 0.5
    """InfoBERT: share of a text's tokens, by gradient norm, below which they are no anchors (its paper: c_l)."""
    anchor_high: float = 0.9
    """InfoBERT: share of a text's tokens, by gradient norm, above which they are no anchors (its paper: c_h)."""
    lora_rank: int = 0
    """Train low-rank adapters of this rank and the head only, merged into the weights at the end; 0 trains all."""
    balanced_classes: bool = False
    """Weigh the loss so that every class counts the same in all, however rare it is."""
    label_smoothing: float = 0.0
    """Share of the target spread evenly over all classes."""
    patience: int | None = None
    """Stop after this many epochs without a better dev accuracy; None trains all epochs."""
    dev_fraction: float = 0.1
    """Share of the training texts held out, stratified, to choose the best epoch; 0 keeps the last epoch."""
    group_by_length: bool = False
    """Put texts of similar length into one update: less padding, so faster; the order is a little less random."""
    report_to: str = "none"
    """Where each epoch's numbers go: tensorboard, wandb, mlflow or another integration of transformers, or none."""
    save_every: int | None = None
    """Save the run (`fit(folder=...)`, `rsmi train`) after so many updates, too, not only after every epoch."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Arithmetic of the training passes."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""

    def __post_init__(self) -> None:
        check_types(self, _LITERALS, _OPTIONAL)
        for name in ("epochs", "batch_size", "ascent_steps"):
            require(getattr(self, name) >= 1, name, "an integer >= 1", getattr(self, name))
        for name in ("learning_rate", "max_grad_norm"):
            value = getattr(self, name)
            require(math.isfinite(value) and value > 0, name, "a finite number > 0", value)
        require(self.lora_rank >= 0, "lora_rank", "an integer >= 0", self.lora_rank)
        require(
            0 <= self.anchor_low < self.anchor_high <= 1,
            "anchor_low",
            f"a share below anchor_high ({self.anchor_high}), both in [0, 1]",
            self.anchor_low,
        )
        ascent = ("ascent_step_size", "ascent_radius", "ascent_start", "bottleneck_weight", "anchor_weight")
        for name in ("weight_decay", "embedding_step", *ascent):
            value = getattr(self, name)
            require(math.isfinite(value) and value >= 0, name, "a finite number >= 0", value)
        for name in ("patience", "save_every"):
            value = getattr(self, name)
            require(value is None or value >= 1, name, "an integer >= 1 or None", value)
        for name in ("warmup_ratio", "dev_fraction", "label_smoothing"):
            require(0 <= getattr(self, name) < 1, name, "a number in [0, 1)", getattr(self, name))
        if self.micro_batch_size is not None and (
            self.micro_batch_size < 1 or self.batch_size % self.micro_batch_size != 0
        ):
            raise ConfigError(
                f"micro_batch_size: expected a divisor of batch_size ({self.batch_size}), got {self.micro_batch_size}"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """Build from plain JSON values; unknown names are refused."""
        return cls(**known_fields(cls, values))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def _variant_fields(name: str) -> dict[str, Any]:
    if name not in VARIANTS:
        raise ConfigError(f"expected a variant of {', '.join(VARIANTS)}; got {name!r}{nearest(name, VARIANTS)}")
    return VARIANTS[name]
