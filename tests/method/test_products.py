"""Linear layers multiplied by oneDNN: the same numbers, the same names, and all else as before."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn

from rsmi.method import products
from rsmi.method.products import OnednnLinear, choose_products

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch was built without oneDNN")


def twins(bias: bool = True) -> tuple[nn.Linear, nn.Linear]:
    """Return a layer of PyTorch's and one of ours with the same weights."""
    rng = torch.Generator().manual_seed(0)
    usual, ours = nn.Linear(24, 40, bias=bias, device="meta"), nn.Linear(24, 40, bias=bias, device="meta")
    weights = {name: torch.randn(own.shape, generator=rng) for name, own in usual.state_dict().items()}
    for layer in (usual, ours):
        layer.load_state_dict(weights, assign=True)
    ours.__class__ = OnednnLinear
    return usual, ours


@pytest.mark.parametrize("shape", [(1, 24), (20, 24), (4, 30, 24), (0, 24)])
@pytest.mark.parametrize("bias", [True, False])
def test_outputs_and_gradients_are_those_of_the_usual_layer(shape: tuple[int, ...], bias: bool) -> None:
    inputs = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    found = []
    for layer in twins(bias):
        own = inputs.clone().requires_grad_()
        outputs = layer(own)
        outputs.square().sum().backward()
        found.append([outputs, own.grad, *(parameter.grad for parameter in layer.parameters())])
    for usual, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, usual)


def test_without_gradients_and_on_transposed_inputs() -> None:
    usual, ours = twins()
    inputs = torch.randn(24, 50, generator=torch.Generator().manual_seed(2)).t()
    with torch.no_grad():
        torch.testing.assert_close(ours(inputs), usual(inputs))


def test_large_products_are_onednns_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    product = products._product
    monkeypatch.setattr(products, "_product", lambda *own: asked.append(own[0].shape) or product(*own))
    _, ours = twins()
    ours(torch.ones(20, 24))
    assert asked == [(20, 24)]
    ours(torch.ones(2, 24))  # few rows
    ours.double()(torch.ones(20, 24, dtype=torch.float64))
    with torch.autocast("cpu", torch.bfloat16):
        assert ours.float()(torch.ones(20, 24)).dtype == torch.bfloat16
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    ours(torch.ones(20, 24))
    assert asked == [(20, 24)]


def test_only_gradients_that_are_wanted_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    product = products._product
    monkeypatch.setattr(products, "_product", lambda *own: asked.append(own[1].shape) or product(*own))
    _, ours = twins()
    ours.requires_grad_(False)
    inputs = torch.ones(20, 24).requires_grad_()
    ours(inputs).sum().backward()
    assert asked == [(40, 24), (24, 40)]  # forwards, and the gradient at the inputs


@pytest.mark.parametrize("bias", [True, False])
def test_a_gradient_at_the_inputs_alone_computes_none_of_the_weights(
    bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    product = products._product
    monkeypatch.setattr(products, "_product", lambda *own: asked.append(own[1].shape) or product(*own))
    usual, ours = twins(bias)
    inputs = torch.randn(20, 24, generator=torch.Generator().manual_seed(3)).requires_grad_()
    found = []
    for layer in (usual, ours):  # the weights have gradients, nobody asks for them: a saliency in training
        found.append(torch.autograd.grad(layer(inputs * 2).square().sum(), inputs)[0])
    torch.testing.assert_close(found[1], found[0])
    assert asked == [(40, 24), (24, 40)]
    found = [torch.autograd.grad(layer(inputs).square().sum(), layer.weight)[0] for layer in (usual, ours)]
    torch.testing.assert_close(found[1], found[0])
    assert len(asked) == 4  # forwards, and the gradient at the weights
    found = [torch.autograd.grad(layer(inputs).square().sum(), [inputs, layer.weight]) for layer in (usual, ours)]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one)


def test_a_model_keeps_its_weights_and_can_be_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    model = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 2))
    before = {name: own.clone() for name, own in model.state_dict().items()}
    choose_products(model)
    assert [type(layer) for layer in model] == [OnednnLinear, nn.ReLU, nn.Linear]  # a head of two outputs gains nothing
    assert {name: bool((own == before[name]).all()) for name, own in model.state_dict().items()} == dict.fromkeys(
        before, True
    )
    inputs = torch.ones(20, 24)
    torch.testing.assert_close(pickle.loads(pickle.dumps(model))(inputs), model(inputs))


@pytest.mark.parametrize(
    ("told", "faster"),
    [
        ({"cpu_name": "AMD EPYC 9B45", "avx512_f": True}, True),
        ({"cpu_name": "AMD EPYC 7763", "avx512_f": False}, False),
        ({"cpu_name": "Intel(R) Xeon(R) Platinum 8481C", "avx512_f": True}, False),
        ({}, False),
    ],
)
def test_it_is_chosen_where_mkl_leaves_avx512_unused(
    told: dict[str, object], faster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: told)
    products.onednn_is_faster.cache_clear()
    try:
        assert products.onednn_is_faster() is faster
    finally:
        products.onednn_is_faster.cache_clear()
