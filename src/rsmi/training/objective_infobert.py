"""InfoBERT (Wang et al. 2021): FreeLB's ascent, less information in the words, more of it shared with the text.

"The authors' code" is github.com/AI-secure/InfoBERT, folder ANLI, with both regularisers on (`version` 6).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from rsmi.method.encoder import Encoder, map_hidden
from rsmi.method.tokens import Batch
from rsmi.seeds import derive, generator
from rsmi.training.objective import Objective, Step
from rsmi.training.objective_finetune import plain_logits
from rsmi.training.objective_freelb import FreelbObjective, Pass

_CRITIC_WIDTH = 300  # as in the authors' code


class Critic(nn.Module):
    """Scores how well a word fits a text: softplus of a two-layer network on both, side by side."""

    def __init__(self, width: int, key: int) -> None:
        super().__init__()
        # a layer on two vectors side by side is the sum of a layer on each, which need not be computed for every pair
        self.words = nn.Linear(width, _CRITIC_WIDTH, device="meta")  # meta: draws nothing from the global generator
        self.texts = nn.Linear(width, _CRITIC_WIDTH, bias=False, device="meta")
        self.score = nn.Linear(_CRITIC_WIDTH, 1, device="meta")
        self.to_empty(device="cpu")
        rng = generator(key)
        for layer, inputs in ((self.words, 2 * width), (self.texts, 2 * width), (self.score, _CRITIC_WIDTH)):
            for parameter in layer.parameters():  # torch's own start of a linear layer, from a key
                nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5, generator=rng)

    def forward(self, words: Tensor, texts: Tensor) -> Tensor:
        """Score every word against every text: (words, width), (texts, width) -> (texts, words)."""
        both = self.words(words).unsqueeze(0) + self.texts(texts).unsqueeze(1)
        scores: Tensor = softplus(self.score(both.relu()).squeeze(-1))
        return scores


@dataclass(frozen=True, slots=True)
class InfobertObjective(Objective):
    """Mean over an ascent of cross-entropy + beta x information in words - alpha x that shared by anchors and text."""

    encoder: Encoder
    ascent_steps: int
    """Forward and backward passes an update."""
    step_size: float
    """Length of one ascent step, in the Frobenius norm of a text's embeddings."""
    radius: float
    """Radius of the ball the ascent stays in, in the same norm; the authors' code leaves it unbounded."""
    initial_size: float
    """Scale of the random start, as in FreeLB."""
    bottleneck_weight: float
    """Weight of the bound on the information that words carry (paper: beta); 0 leaves it out."""
    anchor_weight: float
    """Weight of the information shared by anchors and text (paper: alpha); 0 leaves it out."""
    anchor_low: float
    """Share of a text's tokens that move the loss too little to be anchors (paper: c_l)."""
    anchor_high: float
    """Share of a text's tokens beyond which they move it too much to be anchors (paper: c_h)."""
    key: int
    """Seed of the critic's first weights."""
    critic: Critic = field(init=False, repr=False, compare=False)
    """Learns to tell which word belongs to which text; of use in training only."""

    def __post_init__(self) -> None:
        critic = Critic(self.encoder.model.config.hidden_size, derive(self.key, "critic"))
        object.__setattr__(self, "critic", critic.to(self.encoder.device))

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """The critic, where it has a part in the loss."""
        return {"critic": self.critic} if self.anchor_weight > 0 else {}

    def loss(self, step: Step) -> Tensor:
        """Return the mean loss over the ascent; all passes but the last have run their backward already."""
        self.critic.to(self.encoder.device)  # a trainer may have moved the model since
        rng = generator(derive(step.key, "pairs"))  # one for all passes, so that each pairs other tokens
        ascent = FreelbObjective(self.encoder, self.ascent_steps, self.step_size, self.radius, self.initial_size)
        return ascent.ascend(step, lambda shift: self._pass(step, shift, rng))

    def dev_logits(self, batch: Batch, key: int) -> Tensor:
        """Return the logits of one plain pass."""
        return plain_logits(self.encoder, batch)

    def _pass(self, step: Step, shift: Tensor, rng: torch.Generator) -> Pass:
        if self.anchor_weight > 0:
            shift.requires_grad_()  # in the last pass too, whose gradient nothing climbs
        with captured_hidden(self.encoder) as hidden:
            logits = self.encoder.logits(step.batch, shift, step.model)
        words, last = hidden[0].float(), hidden[-1].float()
        loss = step.criterion(logits, step.labels)
        if self.bottleneck_weight > 0:
            loss = loss + self.bottleneck_weight * word_information(words[step.batch.attention_mask.bool()], rng)
        if self.anchor_weight == 0:
            return Pass(loss / self.ascent_steps)
        # The anchors' own term takes no part in their choice, nor in the ascent, as in the authors' code. That runs two
        # backward passes into the parameters; a model wrapped for several GPUs allows one, so the first ends at the
        # shift. Summed over the texts, because the gradient of a mean can vanish in half precision.
        (gradient,) = torch.autograd.grad(loss * len(step.labels), shift, retain_graph=True)
        rows, places = anchors(gradient, step.batch.lengths, self.anchor_low, self.anchor_high)
        texts = text_states(last, step.batch)
        shared = shared_information(self.critic, words[rows, places], texts[rows], len(texts), rng)
        return Pass((loss - self.anchor_weight * shared) / self.ascent_steps, gradient)


@contextmanager
def captured_hidden(encoder: Encoder) -> Iterator[list[Tensor]]:
    """Note what a forward pass in the block leaves at both ends of the layers, each (batch, tokens, width).

    Yields:
        A list, empty at first. Its first entry becomes what the first layer reads: each token by itself, with its
        position and the shift of its embedding. Its last entry becomes what the last layer returns, before the final
        norm that T5 and ModernBERT have. ALBERT calls one module for several layers, which leaves more in between.
    """
    found: list[Tensor] = []

    def keep(hidden: Tensor) -> Tensor:
        found.append(hidden)
        return hidden

    def before(_layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        map_hidden(next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None), keep)

    def after(_layer: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        map_hidden(output, keep)

    handles = [
        encoder.layers[0].module.register_forward_pre_hook(before, with_kwargs=True),
        encoder.layers[-1].module.register_forward_hook(after),
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def text_states(last: Tensor, batch: Batch) -> Tensor:
    """Return the state that stands for each text (paper: Z): (batch, tokens, width) -> (batch, width).

    That of the first token where it is a special one, as in the authors' code. T5 has none, its head reads the mean
    (encoder alone) or the decoder (both): there it is the mean over the text's tokens.
    """
    real = batch.attention_mask.unsqueeze(-1).to(last.dtype)
    mean = (last * real).sum(1) / real.sum(1)
    return torch.where(batch.maskable[:, :1], mean, last[:, 0])


def word_information(words: Tensor, rng: torch.Generator) -> Tensor:
    """Bound from above the information that words carry, I(X_i; T_i): (tokens, width) -> ().

    CLUB for q(t | x) = N(t(x), 1): the log-likelihood of a token's own state, which is 0 up to a constant, less that of
    a token drawn from the whole batch.
    """
    others = torch.randint(len(words), (len(words),), generator=rng).to(words.device)
    return (words - words[others]).square().sum(-1).mean() / 2


def anchors(gradient: Tensor, lengths: Sequence[int], low: float, high: float) -> tuple[Tensor, Tensor]:
    """Choose the tokens between two quantiles of the gradient's norm, special tokens too, as in the authors' code.

    The authors' code finds none in a text of one token; here every text has at least one, so that it takes part.

    Args:
        gradient: At the word embeddings, (batch, tokens, width).
        lengths: Tokens of each text.
        low: Share of the tokens, those of smallest norm, left out.
        high: Share of the tokens from which on they are left out again.

    Returns:
        Row and place of each anchor, text by text.
    """
    norms = gradient.norm(dim=-1).cpu()
    rows, places = [], []
    for row, length in enumerate(lengths):
        first = min(math.ceil(length * low), length - 1)
        end = max(math.ceil(length * high), first + 1)
        chosen = norms[row, :length].argsort(stable=True)[first:end].tolist()
        places += chosen
        rows += [row] * len(chosen)
    return torch.tensor(rows, device=gradient.device), torch.tensor(places, device=gradient.device)


def shared_information(critic: nn.Module, words: Tensor, texts: Tensor, size: int, rng: torch.Generator) -> Tensor:
    """Bound from below the information anchors share with their texts, I(T_k; Z): two (anchors, width) -> ().

    As in the authors' code every anchor makes a pair with its text, and the pairs are told apart among `size` of them
    at a time, in random order. All at once would cost the square of their number.
    """
    order = torch.randperm(len(words), generator=rng).to(words.device)
    return torch.stack([info_nce(critic(words[part], texts[part])) for part in torch.split(order, size)]).mean()


def info_nce(scores: Tensor) -> Tensor:
    """InfoNCE (van den Oord et al. 2018): how far each text's own word stands out, (texts, words) -> ()."""
    return scores.diagonal().mean() - scores.logsumexp(1).mean() + math.log(len(scores))
