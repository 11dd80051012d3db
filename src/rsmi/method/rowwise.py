"""Linear layers in 8 bits, each row by itself: a text is answered alike, whatever shares its batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_LARGEST = 127.0
_TOGETHER = 1024  # rows at a time: few enough that numbers stay in the cache, enough for several threads


def quantise(model: nn.Module) -> None:
    """Replace every linear layer of a model."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, RowwiseInt8Linear(child))


class RowwiseInt8Linear(nn.Module):
    """A linear layer with 8-bit weights, scaled by output, and inputs scaled row by row as they come.

    Products are summed as integers, exactly, so that neither the batch nor the number of threads changes a row. So are
    those of the gradient at the inputs, whose rows are scaled in the same way; weights have none.
    PyTorch's dynamic quantisation takes one scale for all rows instead: texts then answer by the batch around them, and
    one odd row costs all others precision.
    """

    weight: Tensor
    """(inputs, outputs) in 8 bits."""
    scale: Tensor
    """Of each output, (outputs,)."""
    bias: Tensor

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        weight = layer.weight.detach()
        scale = _scale(weight)
        self.register_buffer("weight", _rounded(weight, scale).t().contiguous())
        self.register_buffer("scale", scale[:, 0].contiguous())
        zero = torch.zeros(layer.out_features, dtype=weight.dtype)
        self.register_buffer("bias", zero if layer.bias is None else layer.bias.detach().clone())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the layer's outputs, (..., outputs)."""
        outputs: Tensor = _Product.apply(inputs, self.weight, self.scale, self.bias)  # type: ignore[no-untyped-call]
        return outputs

    def extra_repr(self) -> str:
        """Describe the layer where a model is printed."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


class _Product(torch.autograd.Function):
    """The product and its derivative by the inputs."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(weight, scale)
        product = _by_parts(inputs, weight)
        return torch.addcmul(bias, product, scale, out=product)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        weight, scale = ctx.saved_tensors
        return _by_parts(gradient * scale, weight.t()), None, None, None


def _by_parts(inputs: Tensor, weight: Tensor) -> Tensor:
    """Return the product of rows, rounded each by itself, (..., inputs), and 8-bit weights, (inputs, outputs)."""
    rows = inputs.reshape(-1, inputs.shape[-1])
    outputs = rows.new_empty(len(rows), weight.shape[1])
    for start in range(0, len(rows), _TOGETHER):
        few, into = rows[start : start + _TOGETHER], outputs[start : start + _TOGETHER]
        scale = _scale(few)
        into.copy_(torch._int_mm(_rounded(few, scale), weight)).mul_(scale)
    return outputs.view(*inputs.shape[:-1], weight.shape[1])


def _scale(rows: Tensor) -> Tensor:
    """Return what makes the largest number of each row 127, (rows, 1)."""
    return rows.abs().amax(1, keepdim=True).div_(_LARGEST).clamp_min_(torch.finfo(rows.dtype).tiny)


def _rounded(rows: Tensor, scale: Tensor) -> Tensor:
    return (rows / scale).round_().to(torch.int8)
