"""How far hidden states spread after each layer: the unit of `noise_unit="spread"`, for several encoders.

python benchmarks/spread.py minilm FOLDER... --out benchmarks/results/spread
"""

import argparse
from pathlib import Path
from typing import Any

import torch

from environment import environment, save
from rsmi.method.pretrained import load_pretrained
from rsmi.method.spread import hidden_spread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="minilm, folders or hub ids")
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    rows = {Path(model).name: measure(model) for model in options.models}
    result = {"spread": rows, "environment": environment()}
    save(options.out, result, page(result))


def measure(model: str) -> list[float]:
    """Return the spread after each layer."""
    loaded = load_pretrained(model, 2, 0, torch.device("cpu"), torch.float32)
    return [round(value, 4) for value in hidden_spread(loaded.encoder, loaded.tokenizer)]


def page(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    where = result["environment"]
    most = max(len(own) for own in result["spread"].values())
    lines = [
        "# Spread of hidden states",
        "",
        "Median over the coordinates of their standard deviation over tokens (`rsmi.method.spread`), after each layer. "
        f"`python benchmarks/spread.py`, torch {where['versions']['torch']}, commit {where['commit']}.",
        "",
        "| Encoder | " + " | ".join(str(layer) for layer in range(most)) + " |",
        "|---|" + "---|" * most,
    ]
    for name, own in result["spread"].items():
        cells = [f"{value:.3g}" for value in own] + [""] * (most - len(own))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
