"""The authors' prediction as their code runs it, for comparison of its cost: see the end of paper-checklist.md.

Every text is padded to 256 tokens; saliency is a backward pass with gradients of all parameters; each of the k0 copies
of step one is a forward pass of the batch; a text that goes on to step two is taken alone, its saliency computed again,
and each of its k1 copies classified alone. Ambiguities that do not change the cost are settled as in the library.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from scipy.stats import binom
from torch import Tensor, nn

from rsmi import RsmiClassifier, RsmiConfig
from rsmi.method.noise import NoisePlan
from rsmi.method.pretrained import Pretrained

PADDED = 256


class Naive:
    """A BERT classifier with RSMI's prediction around it."""

    def __init__(
        self, model: Any, tokenizer: Any, std: float, layers: Sequence[int], num_masks: int, seed: int
    ) -> None:
        self.model, self.tokenizer, self.std = model, tokenizer, std
        self.layers: list[nn.Module] = [model.base_model.encoder.layer[number] for number in layers]
        self.num_masks, self.candidates = num_masks, 5
        self.first_votes, self.second_votes, self.confidence = 5, 50, 0.98
        self.random = torch.Generator().manual_seed(seed)
        self.escalated = 0

    @classmethod
    def of(cls, loaded: Pretrained, plan: NoisePlan, config: RsmiConfig, seed: int) -> "Naive":
        """Take the weights and settings of a classifier of ours."""
        naive = cls(loaded.encoder.model, loaded.tokenizer, plan.std, plan.layers, config.num_masks, seed)
        naive.candidates = config.num_candidates
        naive.first_votes, naive.second_votes = config.first_votes, config.second_votes
        naive.confidence = config.stop_confidence
        return naive

    def predict(self, texts: Sequence[str], average: bool) -> list[int]:
        """Return the class of each text."""
        return [self.winner(logits, average) for logits in self.deciding(texts)]

    def deciding(self, texts: Sequence[str]) -> list[Tensor]:
        """Return the logits of the copies that decide about each text, (copies, classes)."""
        inputs = self.encode(texts)
        pools = self.pools(inputs)
        logits = torch.stack([self.classify(self.masked(inputs, pools, top=True)) for _ in range(self.first_votes)])
        return [self.decide(inputs, row, logits[:, row]) for row in range(len(texts))]

    def encode(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Tokenize, padded to the full length."""
        return dict(
            self.tokenizer(list(texts), padding="max_length", truncation=True, max_length=PADDED, return_tensors="pt")
        )

    def decide(self, inputs: dict[str, Tensor], row: int, first: Tensor) -> Tensor:
        """Return the copies of step one if their vote is clear, else those of step two, for this text alone."""
        top = int(first.argmax(-1).bincount().max())
        if binom.cdf(top, self.first_votes, 0.5) >= self.confidence:
            return first
        self.escalated += 1
        alone = {name: value[row : row + 1] for name, value in inputs.items()}
        pools = self.pools(alone)
        return torch.stack([self.classify(self.masked(alone, pools, top=False))[0] for _ in range(self.second_votes)])

    def winner(self, logits: Tensor, average: bool) -> int:
        """Return the class of the average, or of most copies: (copies, classes) -> class."""
        return int(logits.mean(0).argmax() if average else logits.argmax(-1).bincount().argmax())

    def pools(self, inputs: dict[str, Tensor]) -> list[list[int]]:
        """Return the most salient tokens of each text, from a backward pass through embeddings and parameters."""
        table = self.model.get_input_embeddings()
        kept: list[Tensor] = []
        handle = table.register_forward_hook(lambda _module, _args, output: kept.append(output))
        self.model.zero_grad()
        with torch.enable_grad():
            logits = self.noisy(inputs)
            handle.remove()
            kept[0].retain_grad()
            nn.functional.cross_entropy(logits, logits.argmax(-1)).backward()
        gradient = kept[0].grad
        assert gradient is not None
        norms = gradient.norm(dim=-1)
        lengths = inputs["attention_mask"].sum(1).tolist()
        return [
            [int(i) for i in own[1 : length - 1].topk(min(self.candidates, length - 2)).indices + 1]
            for own, length in zip(norms, lengths, strict=True)
        ]

    def masked(self, inputs: dict[str, Tensor], pools: list[list[int]], top: bool) -> dict[str, Tensor]:
        """Hide the most salient tokens of each text, or some of the candidates."""
        ids = inputs["input_ids"].clone()
        for row, pool in enumerate(pools):
            order = range(len(pool)) if top else torch.randperm(len(pool), generator=self.random).tolist()
            ids[row, [pool[i] for i in list(order)[: self.num_masks]]] = self.tokenizer.mask_token_id
        return {**inputs, "input_ids": ids}

    @torch.no_grad()
    def classify(self, inputs: dict[str, Tensor]) -> Tensor:
        """Classify once with fresh noise."""
        return self.noisy(inputs)

    def noisy(self, inputs: dict[str, Tensor]) -> Tensor:
        """Run the model with noise after its layers."""
        with hooked(self.layers, self.add_noise):
            logits: Tensor = self.model(**inputs).logits
        return logits

    def add_noise(self, _module: nn.Module, _args: object, output: Any) -> Any:
        """Add noise to a layer's output."""
        hidden = output[0] if isinstance(output, tuple) else output
        hidden = hidden + self.std * torch.randn(hidden.shape, generator=self.random)
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


@contextmanager
def hooked(modules: Sequence[nn.Module], hook: Callable[..., Any]) -> Iterator[None]:
    """Hook modules while the block runs."""
    handles = [module.register_forward_hook(hook) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class AuthorsTarget:
    """The authors' algorithm as an attack asks it: logits averaged."""

    randomised, uses_gradients = True, True

    def __init__(self, classifier: RsmiClassifier, naive: Naive) -> None:
        self.classes_, self.naive = classifier.classes_, naive

    def query(self, texts: Sequence[str], draw: int = 0) -> Any:
        """Return probabilities, (texts, classes)."""
        return torch.stack([logits.mean(0).softmax(-1) for logits in self.naive.deciding(texts)]).double().numpy()
