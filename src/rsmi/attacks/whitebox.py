"""What a target that gives its model away tells an attack: the defended model's expected loss and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from rsmi.config import RsmiConfig
from rsmi.defense import Target
from rsmi.errors import UnsupportedModelError
from rsmi.memory import return_free_memory
from rsmi.method.encoder import evaluating
from rsmi.method.engine import Engine
from rsmi.method.masking import hide, sample_positions, top_positions
from rsmi.method.noise import EMBEDDINGS, NoisePlan, NoiseSource, noisy_logits, row_noise
from rsmi.method.saliency import BACKWARD_COST, embedding_gradient
from rsmi.method.tokens import Batch, Encoded, by_length, collate
from rsmi.records import TextInput
from rsmi.seeds import derive

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(logits (copies, classes), true classes (copies,)) -> what the attacker wants high, (copies,)."""


@runtime_checkable
class Differentiable(Protocol):
    """What a white-box attack asks of a target beyond its answers."""

    def engine(self, draw: int = 0) -> Engine:
        """Return the model with the settings in force."""
        ...


def engine_of(target: Target) -> Engine:
    """Return the model behind a target, or say that it gives none away."""
    engine = target.engine() if isinstance(target, Differentiable) else None
    if not isinstance(engine, Engine):
        raise UnsupportedModelError(
            f"expected a target that gives its model away by a method engine(), as RsmiClassifier does, got "
            f"{type(target).__name__}; attack it by its answers alone, for example with textfooler"
        )
    return engine


def cross_entropy(logits: Tensor, golds: Tensor) -> Tensor:
    """Return -log of the probability of the true class."""
    return -logits.log_softmax(-1).gather(1, golds.unsqueeze(1)).squeeze(1)


@dataclass(frozen=True, slots=True)
class Margin:
    """How far another class leads the true one, in logits, but no further than `kappa` (Carlini & Wagner 2017)."""

    kappa: float

    def __call__(self, logits: Tensor, golds: Tensor) -> Tensor:
        """Return the leads, (copies,)."""
        gold = logits.gather(1, golds.unsqueeze(1))
        others = logits.scatter(1, golds.unsqueeze(1), -torch.inf).amax(1)
        return (others - gold.squeeze(1)).clamp(max=self.kappa)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A text whose loss is wanted under some draws."""

    text: TextInput
    gold: int
    keys: tuple[int, ...]
    """One a draw: a draw sees the saliency, masks and noise of a copy of a text that is classified under this key."""
    shift: Tensor | None = None
    """Added to the word embeddings, another one for every draw: (draws, tokens, width)."""


@dataclass(frozen=True, slots=True, eq=False)
class Slope:
    """The answer to a question."""

    losses: Tensor
    """(draws,)."""
    gradient: Tensor
    """Of each draw's loss at its word embeddings, (draws, tokens, width)."""


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    row: Encoded
    seen: Encoded
    """The same, or with words replaced by the defense."""
    gold: int
    key: int
    step: str
    shift: Tensor | None


class GradientView:
    """The defended model, as its own inference runs it, differentiated at the word embeddings of its input.

    Which tokens are hidden is taken as given. What hides them is passed straight through: a hidden token's embedding
    does not reach the layers, yet gets the gradient that arrives in its place, so that masks do not hide gradients
    (BPDA, Athalye et al. 2018). The same holds for words the defense replaces (SAFER); a copy that such a replacement
    makes longer or shorter is taken unreplaced. Half of the draws hide the top tokens of step one, the other half a
    choice of step two, where the settings have both. Neither parameters nor modes of the model change.
    """

    def __init__(self, engine: Engine, loss: Loss) -> None:
        self.engine, self.loss = engine, loss
        self.encoder = engine.runner

    @property
    def embeddings(self) -> Tensor:
        """The table of word embeddings, (vocabulary, width)."""
        table: Tensor = self.encoder.model.get_input_embeddings().weight.detach()
        return table

    def encode(self, texts: Sequence[TextInput]) -> list[Encoded]:
        """Tokenize as the target does."""
        with self.engine.lock:
            return self.engine.encode(texts)

    def losses(self, questions: Sequence[Question]) -> list[Tensor]:
        """Return the loss of each draw, (draws,) a question."""
        return [slope.losses for slope in self._answers(questions, differentiate=False)]

    def slopes(self, questions: Sequence[Question]) -> list[Slope]:
        """Return the loss of each draw and its gradient; a question's answer does not depend on those beside it."""
        return self._answers(questions, differentiate=True)

    def _answers(self, questions: Sequence[Question], differentiate: bool) -> list[Slope]:
        engine = self.engine
        samples = engine.config.saliency_samples
        results: dict[int, tuple[Tensor, Tensor]] = {}
        # inference_mode(False): a caller's inference mode would otherwise forbid the gradient
        with engine.lock, torch.inference_mode(False), torch.enable_grad(), evaluating(self.encoder.model):
            draws = self._draws(questions)
            budget = max(1, engine.token_budget // BACKWARD_COST)
            for group in by_length([len(draw.row) * samples for draw in draws], budget):
                own = [draws[i] for i in group]
                shift = self._stacked(own)
                copies = self._masked(own, shift)
                with torch.set_grad_enabled(differentiate):
                    losses, gradient = self._slope(own, copies, shift, differentiate)
                for i, draw, value, slope in zip(group, own, losses, gradient, strict=True):
                    results[i] = (value, slope[: len(draw.row)])
                return_free_memory()
            answers, start = [], 0
            for question in questions:
                part = [results[i] for i in range(start, start + len(question.keys))]
                answers.append(Slope(torch.stack([value for value, _ in part]), torch.stack([own for _, own in part])))
                start += len(question.keys)
        return answers

    def _draws(self, questions: Sequence[Question]) -> list[_Draw]:
        config, draws = self.engine.config, []
        rows = self.engine.encode([question.text for question in questions])
        for question, row in zip(questions, rows, strict=True):
            steps = [_step(config, number) for number in range(len(question.keys))]
            seen = [row] * len(steps)
            if config.draws_words:
                copies = [derive(key, step, 0) for key, step in zip(question.keys, steps, strict=True)]
                drawn = self.engine.redrawn(question.text, copies)
                seen = [copy if len(copy) == len(row) else row for copy in drawn]
            for number, (key, step) in enumerate(zip(question.keys, steps, strict=True)):
                shift = None if question.shift is None else question.shift[number]
                draws.append(_Draw(row, seen[number], question.gold, key, step, shift))
        return draws

    def _stacked(self, draws: Sequence[_Draw]) -> Tensor:
        """Return the shifts of draws, padded: (draws, tokens, width)."""
        tokens = max(len(draw.row) for draw in draws)
        shift = torch.zeros(len(draws), tokens, self.encoder.embedding_width, device=self.encoder.device)
        for row, draw in zip(shift, draws, strict=True):
            if draw.shift is not None:
                row[: len(draw.row)] = draw.shift.detach()
        return shift

    def _masked(self, draws: Sequence[_Draw], shift: Tensor) -> list[Encoded]:
        """Return the copy that each draw classifies, its masks chosen as the defense chooses them."""
        config, token = self.engine.config, self.engine.mask_token_id
        pools = self._pools(draws, shift)
        copies = []
        for draw, pool in zip(draws, pools, strict=True):
            if config.masking == "gradient" and draw.step == "first":
                mask = pool[: config.num_masks]
            else:
                (mask,) = sample_positions(pool, config.num_masks, 1, derive(draw.key, draw.step, "masks"))
            copies.append(replace(draw.seen, ids=hide(draw.seen.ids, mask, token)))
        return copies

    def _pools(self, draws: Sequence[_Draw], shift: Tensor) -> list[tuple[int, ...]]:
        config = self.engine.config
        if config.masking != "gradient":
            return [draw.row.maskable_positions if config.masking == "random" else () for draw in draws]
        samples = config.saliency_samples
        batch = self._batch([draw.row for draw in draws])
        keys = [derive(draw.key, "saliency", sample) for draw in draws for sample in range(samples)]
        noise = row_noise(keys, batch.repeat(samples).lengths)
        plan, source = _moved(self.engine.plan, noise, shift.repeat_interleave(samples, 0))
        saliency = embedding_gradient(self.encoder, plan, batch, source, samples).saliency(batch.maskable)
        return top_positions(saliency, batch.maskable, config.num_candidates)

    def _slope(
        self, draws: Sequence[_Draw], copies: Sequence[Encoded], shift: Tensor, differentiate: bool
    ) -> tuple[Tensor, Tensor]:
        batch = self._batch(copies)
        hidden = batch.input_ids != self._batch([draw.row for draw in draws]).input_ids
        shift.requires_grad_(differentiate)
        # what hides a token is all that the layers see of it, but its gradient is the token's own
        seen = torch.where(hidden.unsqueeze(-1), shift - shift.detach(), shift)
        source = row_noise([derive(draw.key, draw.step, 0) for draw in draws], batch.lengths)
        logits = noisy_logits(self.encoder, self.engine.plan, batch, source, seen)
        losses = self.loss(logits, torch.tensor([draw.gold for draw in draws], device=logits.device))
        gradient = torch.autograd.grad(losses.sum(), shift)[0] if differentiate else torch.zeros_like(shift)
        if not (losses.isfinite().all() and gradient.isfinite().all()):  # a ranking by them would mean nothing
            raise UnsupportedModelError(
                "expected finite losses and gradients, got some that are not finite; load the model with "
                "dtype='float32'"
            )
        return losses.detach(), gradient

    def _batch(self, rows: Sequence[Encoded]) -> Batch:
        return collate(rows, self.engine.loaded.tokenizer.pad_token_id).to(self.encoder.device)


def _step(config: RsmiConfig, number: int) -> str:
    """Return the step of inference that a draw is a copy of."""
    if config.stop == "sequential":
        return "sequential"
    both = config.masking == "gradient" and config.two_step
    return "second" if both and number % 2 else "first"


def _moved(plan: NoisePlan, source: NoiseSource, shift: Tensor) -> tuple[NoisePlan, NoiseSource]:
    """Add a shift to the noise at the word embeddings, so that saliency is taken where the relaxed input stands."""

    def draw(layer: int, shape: torch.Size) -> Tensor:
        noise = source(layer, shape) if layer != EMBEDDINGS or plan.embedding_std > 0 else torch.zeros(())
        return shift + plan.embedding_std * noise.to(shift) if layer == EMBEDDINGS else noise

    return replace(plan, embedding_std=1.0), draw
