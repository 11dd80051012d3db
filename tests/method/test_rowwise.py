"""8-bit layers: each row by itself, and nearer to the exact layer than one scale for all rows."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from rsmi import RsmiClassifier
from rsmi.method.rowwise import RowwiseInt8Linear, quantise
from tiny import some_texts
from toy import CONFIG

SIZES = pytest.mark.parametrize(("inputs", "outputs"), [(7, 2), (32, 48), (384, 96)])


def layers(inputs: int, outputs: int, *, bias: bool = True) -> tuple[nn.Linear, RowwiseInt8Linear]:
    exact = nn.Linear(inputs, outputs, bias=bias)
    with torch.no_grad():
        exact.weight.copy_(torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(0)))
    return exact, RowwiseInt8Linear(exact)


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@SIZES
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_the_product_of_the_rounded_numbers(inputs, outputs, bias):
    exact, layer = layers(inputs, outputs, bias=bias)
    given = rows(5, inputs)
    scale = given.abs().amax(1, keepdim=True) / 127
    weights = layer.weight.double() * layer.scale.double()
    wanted = (given / scale).round().double() * scale.double() @ weights
    wanted = wanted if exact.bias is None else wanted + exact.bias.double()
    assert torch.allclose(layer(given).double(), wanted, rtol=1e-5, atol=1e-5)
    assert (
        layer.weight.double() * layer.scale.double() - exact.weight.t().double()
    ).abs().max() < exact.weight.abs().max() / 250


@SIZES
def test_a_row_is_the_same_to_the_last_bit_whatever_stands_around_it(inputs, outputs):
    _, layer = layers(inputs, outputs)
    given = rows(1200, inputs)  # more than one part
    given[0] *= 1000
    together = layer(given.view(3, 400, inputs)).view(1200, outputs)
    for place in (1, 1023, 1024, 1199):
        assert torch.equal(layer(given[place : place + 1])[0], together[place])


def test_rows_without_numbers_stay_alone():
    _, layer = layers(16, 4)
    given = rows(3, 16)
    given[1], given[2, 0] = 0.0, float("nan")
    found = layer(given)
    assert torch.equal(found[1], layer.bias)
    assert found[2].isnan().all()
    assert not found[:2].isnan().any()
    assert layer(given[:0]).shape == (0, 4)


@SIZES
def test_the_gradient_is_the_product_of_rounded_numbers_each_row_by_itself(inputs, outputs):
    exact, layer = layers(inputs, outputs)
    given, pull = rows(2, 600, inputs), rows(2, 600, outputs)  # more than one part
    pull[0, 0] *= 1000

    def gradient(through: nn.Module, part: slice) -> torch.Tensor:
        own = given[:, part].clone().requires_grad_()
        return torch.autograd.grad((through(own) * pull[:, part]).sum(), own)[0]

    found = gradient(layer, slice(None))
    scaled = pull * layer.scale
    scale = scaled.abs().amax(-1, keepdim=True) / 127
    wanted = (scaled / scale).round().double() * scale.double() @ layer.weight.t().double()
    assert torch.allclose(found.double(), wanted, rtol=1e-4, atol=1e-4 * wanted.abs().max().item())
    assert torch.equal(gradient(layer, slice(7, 8)), found[:, 7:8])
    wanted = gradient(exact, slice(None))
    assert (found - wanted)[1].norm() < 0.02 * wanted[1].norm()


def test_weights_have_no_gradient():
    _, layer = layers(16, 4)
    assert not list(layer.parameters())
    assert not layer(rows(3, 16)).requires_grad


def test_one_odd_row_costs_the_others_nothing():
    exact, layer = layers(64, 64)
    given = rows(100, 64)
    given[0] *= 50
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shared = torch.ao.quantization.quantize_dynamic(
            nn.Sequential(exact), {nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig}
        )
    errors = [(each(given) - exact(given))[1:].abs().mean() for each in (layer, shared)]
    assert 5 * errors[0] < errors[1]


def test_linear_layers_alone_are_replaced():
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)))
    quantise(model)
    assert [type(own).__name__ for own in model.modules()].count("RowwiseInt8Linear") == 2
    assert "in_features=4, out_features=2" in repr(model)


def test_a_text_is_answered_alike_alone_and_among_others(tiny_folder):
    folder = str(tiny_folder("bert", num_layers=4, dropout=0.0))
    texts = some_texts(12, 3, 12, seed=5)
    classifier = RsmiClassifier.from_pretrained(folder, CONFIG, classes=["a", "b"], seed=0, backend="int8")
    together = classifier.predict_proba(texts)
    assert [classifier.predict_proba([text])[0].tolist() for text in texts] == together.tolist()
