"""Float32 products by PyTorch's default (MKL on x86) and by oneDNN, side by side: layers, answers, updates.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/products.py --out benchmarks/results/products

Single layers of the sizes of MiniLM and BERT-base, forwards and both gradients; then what it makes of a plain answer
and of a training update of MiniLM (`rsmi.method.products`). Both ways take turns in one process. Writes OUT.json and
OUT.md.
"""

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from environment import environment, save
from rsmi import RsmiClassifier, RsmiConfig, TrainConfig, load_data
from rsmi.evaluation.timing import Clock
from rsmi.method import products
from rsmi.method.products import OnednnLinear
from speed import spread, timed

LAYERS = ((384, 384), (384, 1536), (1536, 384), (768, 3072))
ROWS = (16, 64, 256, 1024)
BATCH, LENGTH, TEXTS, SEED = 16, 64, 64, 0
WAYS = {"MKL": False, "oneDNN": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--updates", type=int, default=6, help="updates a repeat; the first two warm up")
    parser.add_argument("--rounds", type=int, default=3, help="repeats of training")
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    layers = [layer_times(*sizes, rows, options.repeats) for sizes in LAYERS for rows in ROWS]
    result = {
        "processor": torch.cpu.get_capabilities().get("cpu_name"),
        "chosen": products.onednn_is_faster(),
        "layers": layers,
        "answers": answer_times(options.repeats),
        "updates": {method: update_times(method, options) for method in ("finetune", "rsmi")},
        "rounds": options.rounds,
        "seed": SEED,
        "environment": environment(),
    }
    save(options.out, result, page(result))


def gains(times: dict[str, list[float]]) -> dict[str, Any]:
    """Return how many times as fast oneDNN was, repeat by repeat."""
    return spread([usual / own for usual, own in zip(times["MKL"], times["oneDNN"], strict=True)])


def layer_times(inputs: int, outputs: int, rows: int, repeats: int) -> dict[str, Any]:
    """Time a layer and its gradients."""
    random = torch.Generator().manual_seed(SEED)
    layer = nn.Linear(inputs, outputs, device="meta")
    layer.load_state_dict(
        {name: torch.randn(own.shape, generator=random) for name, own in layer.state_dict().items()}, assign=True
    )
    texts = torch.randn(rows, inputs, generator=random).requires_grad_()
    calls = max(1, 2**28 // (rows * inputs * outputs))  # a millisecond or so, where one call takes much less

    def both(kind: type[nn.Linear]) -> None:
        layer.__class__ = kind
        for _ in range(calls):
            layer(texts).backward(torch.ones(rows, outputs))

    times = timed({"MKL": lambda: both(nn.Linear), "oneDNN": lambda: both(OnednnLinear)}, repeats)
    return {"inputs": inputs, "outputs": outputs, "rows": rows, **gains(times)}


def answer_times(repeats: int) -> dict[str, Any]:
    """Time answers of a plain MiniLM to texts of one length."""
    texts = load_data("imdb", "test").take(TEXTS, SEED).texts
    ways: dict[str, Callable[[], Any]] = {}
    for name in WAYS:
        own = trained(name, "finetune", BATCH)
        ways[name] = lambda own=own: own.predict_proba(texts)
    return {"texts": TEXTS, "tokens": LENGTH, "repeats": repeats, **gains(timed(ways, repeats))}


def update_times(method: str, options: argparse.Namespace) -> dict[str, Any]:
    """Time training updates, the median of each round."""
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(options.rounds):
        for name in WAYS if number % 2 == 0 else reversed(WAYS):
            clock = Clock()
            trained(name, method, BATCH * options.updates, clock)
            times[name].append(statistics.median(clock.seconds[2:]))
    return {"batch": BATCH, "tokens": LENGTH, **gains(times)}


def trained(way: str, method: str, num: int, *callbacks: Clock) -> RsmiClassifier:
    """Train a classifier on some texts, multiplying one way or the other."""
    config = RsmiConfig(max_length=LENGTH) if method == "rsmi" else RsmiConfig.variant("plain", max_length=LENGTH)
    settings = TrainConfig(method=method, epochs=1, batch_size=BATCH, dev_fraction=0.0)
    data = load_data("imdb", "train").take(num, SEED)  # reviews are longer than LENGTH: no padding
    with patch.object(products, "onednn_is_faster", return_value=WAYS[way]):
        classifier = RsmiClassifier("minilm", config, settings, seed=SEED, progress=False)
        return classifier.fit(data.texts, data.labels, callbacks=[*callbacks])


def page(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    where = result["environment"]
    lines = [
        "# Float32 products by oneDNN and by PyTorch's default",
        "",
        f"`python benchmarks/products.py`: {result['processor']}, {where['threads']} threads, torch "
        f"{where['versions']['torch']}, commit {where['commit']}, seed {result['seed']}. How many times as fast oneDNN "
        "is as the default (MKL), by turns in one process: median and range of "
        f"{result['answers']['repeats']} repeats ({result['rounds']} of training). Here `rsmi` "
        f"{'takes oneDNN' if result['chosen'] else 'keeps the default'}.",
        "",
        "| Layer, forwards and backwards | " + " | ".join(f"{rows} rows" for rows in ROWS) + " |",
        "|---|" + "--:|" * len(ROWS),
    ]
    for sizes in LAYERS:
        own = [each for each in result["layers"] if (each["inputs"], each["outputs"]) == sizes]
        lines.append(f"| {sizes[0]} x {sizes[1]} | " + " | ".join(map(told, own)) + " |")
    answers, updates = result["answers"], result["updates"]
    lines += [
        "",
        "| MiniLM | times as fast |",
        "|---|--:|",
        f"| {answers['texts']} plain answers, {answers['tokens']} tokens each | {told(answers)} |",
    ]
    for method, own in updates.items():
        lines.append(f"| training update, {method}, {own['batch']} x {own['tokens']} tokens | {told(own)} |")
    return "\n".join([*lines, ""])


def told(own: dict[str, Any]) -> str:
    """Return a ratio with its range."""
    return f"{own['median']:.2f} ({own['least']:.2f} to {own['most']:.2f})"


if __name__ == "__main__":
    main()
