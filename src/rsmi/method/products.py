"""Linear layers of a model -> the same layers, multiplied by the faster of the libraries that PyTorch comes with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_LEAST = 16  # rows and outputs: below, a call of oneDNN takes longer than the product


def choose_products(model: nn.Module) -> None:
    """Let the linear layers of a model multiply by oneDNN where that is faster; weights and their names stay."""
    if onednn_is_faster():
        for module in model.modules():
            if type(module) is nn.Linear and module.out_features >= _LEAST:
                module.__class__ = OnednnLinear


@lru_cache(maxsize=1)
def onednn_is_faster() -> bool:
    """Return whether this processor multiplies matrices in float32 faster by oneDNN than by PyTorch's default.

    That is MKL on x86, which leaves AVX-512 unused on processors that are not Intel's: benchmarks/products.py.
    """
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):  # type: ignore[no-untyped-call]
        return False
    told: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    name = str(told.get("cpu_name", "intel")).lower()
    return bool(told.get("avx512_f")) and "intel" not in name and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class OnednnLinear(nn.Linear):
    """A linear layer that multiplies float32 on a CPU by oneDNN, forwards and backwards, and all else as usual."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer's outputs, (..., outputs)."""
        if not _suits(input, self.weight):
            return super().forward(input)
        if torch.is_grad_enabled():
            outputs: Tensor = _Product.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
            return outputs
        return _product(input, self.weight, self.bias)


def _suits(inputs: Tensor, weight: Tensor) -> bool:
    """Return whether a product is one that oneDNN is asked for: plain numbers, enough of them, and nothing traced."""
    return (
        not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        and type(inputs) is Tensor
        and type(weight) in (nn.Parameter, Tensor)  # a tensor of several machines knows no such product
        and inputs.dtype == weight.dtype == torch.float32
        and inputs.device.type == weight.device.type == "cpu"
        and inputs.numel() >= _LEAST * inputs.shape[-1]
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
    )


class _Product(torch.autograd.Function):
    """The product and its derivatives."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return _product(inputs, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        inputs, weight = ctx.saved_tensors
        by_inputs, by_weight, by_bias = _asked_for(ctx)
        rows = gradient.reshape(-1, gradient.shape[-1])
        return (
            _product(gradient, weight.t()) if by_inputs else None,
            _product(rows.t(), inputs.reshape(-1, inputs.shape[-1]).t()) if by_weight else None,
            rows.sum(0) if by_bias else None,
        )


def _asked_for(ctx: Any) -> list[bool]:
    """Return which derivatives the backward pass under way is for: a saliency needs none of the weights.

    A function of one's own is only told what has a gradient at all, and PyTorch's own layers ask the engine, as here.
    """
    nodes = [node for node, _ in ctx.next_functions] + [None]  # a bias that is missing has no entry
    return [needed and _will_run(node) for needed, node in zip(ctx.needs_input_grad, nodes, strict=False)]


def _will_run(node: Any) -> bool:
    ask = getattr(torch._C, "_will_engine_execute_node", None)
    if ask is None or node is None:
        return True
    try:
        return bool(ask(node))
    except RuntimeError:  # of a tensor that the gradient is taken at, it only says that it cannot tell
        return True


def _product(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return (..., inputs) times (outputs, inputs), transposed, plus (outputs,): -> (..., outputs)."""
    outputs: Tensor = torch.ops.mkldnn._linear_pointwise.default(inputs, weight, bias, "none", [], "")
    return outputs
