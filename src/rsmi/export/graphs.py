"""A noisy forward pass, and its gradient, as one graph whose only randomness is what comes in."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from rsmi.method.encoder import Encoder, evaluating
from rsmi.method.noise import EMBEDDINGS, NoisePlan, noisy_logits
from rsmi.method.tokens import Batch

LOGITS, SALIENCY = "logits", "saliency"
_AXES = ("copies", "tokens")
_EXAMPLE = (3, 7)  # neither 0 nor 1, which a trace would take for constants


@dataclass(frozen=True, slots=True)
class NoiseInput:
    """A tensor of standard normal noise, (copies, tokens, width), that a graph takes."""

    name: str
    layer: int
    """It is added after this layer; -1 stands for the word embeddings."""
    std: float
    """The graph multiplies it by this."""
    width: int


@dataclass(frozen=True, slots=True)
class Graph:
    """What is exported: token ids and noise -> logits and, if asked, the gradient norm of every token."""

    encoder: Encoder
    plan: NoisePlan
    with_saliency: bool

    @property
    def token_inputs(self) -> tuple[str, ...]:
        """Inputs of shape (copies, tokens), 64-bit integers."""
        segments = ("token_type_ids",) if self.encoder.uses_segments else ()
        return ("input_ids", "attention_mask", *segments)

    @property
    def noise_inputs(self) -> tuple[NoiseInput, ...]:
        """Inputs of noise, in the order in which it is added."""
        width, layers = int(self.encoder.model.config.hidden_size), self.plan.layers if self.plan.std > 0 else ()
        found = [NoiseInput(f"noise_{layer}", layer, self.plan.std_after(layer), width) for layer in layers]
        if self.plan.embedding_std > 0:
            own = NoiseInput("noise_embeddings", EMBEDDINGS, self.plan.embedding_std, self.encoder.embedding_width)
            found.insert(0, own)
        return tuple(found)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what comes out: (copies, classes) and (copies, tokens)."""
        return (LOGITS, SALIENCY) if self.with_saliency else (LOGITS,)

    def __call__(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Compute the outputs from the inputs in their order."""
        count = len(self.token_inputs)
        ids, attention, *segments = given[:count]
        noise = {own.layer: drawn for own, drawn in zip(self.noise_inputs, given[count:], strict=True)}
        # lengths that differ: the graph must look at the padding, whether or not there is any
        batch = Batch(ids, attention, segments[0] if segments else None, attention.bool(), (1, 2))

        def source(layer: int, _shape: torch.Size) -> Tensor:
            return noise[layer]

        if not self.with_saliency:
            return (noisy_logits(self.encoder, self.plan, batch, source),)
        with torch.enable_grad():
            shift = torch.zeros(*ids.shape, self.encoder.embedding_width, requires_grad=True)
            logits = noisy_logits(self.encoder, self.plan, batch, source, shift)
            loss = -logits.log_softmax(-1).gather(1, logits.argmax(-1, keepdim=True)).sum()
            (gradient,) = torch.autograd.grad(loss, shift)
        return logits.detach(), gradient.norm(dim=-1)

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs to trace it with."""
        tokens = torch.ones(_EXAMPLE, dtype=torch.long)
        return (*(tokens.clone() for _ in self.token_inputs), *(self._noise(own) for own in self.noise_inputs))

    @staticmethod
    def _noise(own: NoiseInput) -> Tensor:
        return torch.zeros(*_EXAMPLE, own.width)


def traced(graph: Graph) -> Any:
    """Return the graph as an `onnx_ir.Model`; the numbers of copies and tokens stay free.

    The gradient is traced operation by operation (`make_fx`), since exporters do not follow autograd; attention is
    written out, since its fused kernels have gradients that no other runtime knows.
    """
    example = graph.example()
    names = [*graph.token_inputs, *(own.name for own in graph.noise_inputs)]
    axes = {place: torch.export.Dim(name) for place, name in enumerate(_AXES)}
    with _quiet(), evaluating(graph.encoder.model), torch.no_grad():
        with sdpa_kernel(SDPBackend.MATH):
            operations: nn.Module = make_fx(graph, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*example)
        program: Any = torch.onnx.export(  # None of the older exporter only
            operations.eval(),
            example,
            dynamo=True,
            dynamic_shapes=(axes,) * len(example),
            input_names=names,
            output_names=list(graph.outputs),
            verbose=False,
        )
    return program.model


def split(model: Any, names: Sequence[str]) -> Any:
    """Return the part of an ONNX model that computes the outputs `names`; weights kept in a file stay there."""
    from onnx.utils import Extractor

    return Extractor(model).extract_model([own.name for own in model.graph.input], list(names))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to itself what exporters tell about their own workings."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
