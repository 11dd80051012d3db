r"""Where the time of a prediction goes, by torch's profiler: what is left to gain.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/profile_time.py --model runs/demo/rsmi --out benchmarks/results/profile

Predicts 64 sentences of `mr` under the paper's settings on one thread (several would each do the same to groups of
their own, see decision 012) and sums the CPU's own time by kind of operation; then sets the matrix products beside what
the same products take alone. Writes OUT.json and OUT.md.
"""

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from environment import environment, save
from rsmi import RsmiClassifier, load_data
from speed import PAPER

KINDS = {
    "matrix products": ("aten::addmm", "aten::mm", "aten::bmm", "aten::linear", "aten::matmul", "mkldnn"),
    "attention": ("aten::_scaled_dot_product", "aten::scaled_dot_product", "aten::_flash"),
    "noise": ("aten::normal_", "aten::randn", "aten::uniform_"),
    "norms": ("aten::native_layer_norm", "aten::layer_norm"),
    "activations": ("aten::gelu", "aten::tanh", "aten::softmax", "aten::_softmax"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/demo/rsmi"))
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = load_data("mr", "test").take(options.texts, 0).texts
    classifier = RsmiClassifier.from_pretrained(options.model, PAPER, seed=0, progress=False)
    classifier.predict(texts[:4])
    started = time.perf_counter()
    classifier.predict(texts)
    seconds = time.perf_counter() - started
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        classifier.predict(texts)
    events = recorded.key_averages(group_by_input_shape=True)
    shares, flops = summed(events)
    peak = product_speed()
    result = {
        "texts": options.texts,
        "seconds": seconds,
        "own_seconds": dict(shares),
        "product_gflop": flops / 1e9,
        "product_gflops": flops / 1e9 / shares["matrix products"],
        "product_gflops_alone": peak,
        "threads": torch.get_num_threads(),
        "environment": environment(),
    }
    save(options.out, result, page(result))


def summed(events: Any) -> tuple[Counter[str], float]:
    """Return own seconds by kind of operation, and the operations of the matrix products."""
    shares: Counter[str] = Counter()
    flops = 0.0
    for event in events:
        kind = next((name for name, keys in KINDS.items() if event.key.startswith(keys)), "other")
        shares[kind] += event.self_cpu_time_total / 1e6
        if event.key in ("aten::addmm", "aten::mm"):
            left, right = [shape for shape in event.input_shapes if len(shape) == 2][:2]
            flops += 2.0 * event.count * left[0] * left[1] * right[1]
    return shares, flops


def product_speed(rows: int = 2048, width: int = 384, repeats: int = 30) -> float:
    """Return GFLOP/s of the largest product of a MiniLM layer alone: the best of some."""
    left, right, bias = torch.randn(rows, width), torch.randn(4 * width, width), torch.randn(4 * width)
    best = 0.0
    for _ in range(repeats):
        started = time.perf_counter()
        torch.nn.functional.linear(left, right, bias)
        best = max(best, 2.0 * rows * width * 4 * width / (time.perf_counter() - started) / 1e9)
    return best


def page(found: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    env, total = found["environment"], sum(found["own_seconds"].values())
    lines = [
        "# Where the time of a prediction goes",
        "",
        f"{found['texts']} sentences of mr, the paper's settings, {found['threads']} thread, torch "
        f"{env['versions']['torch']}, commit {env['commit']}. `python benchmarks/profile_time.py`.",
        "",
        "| Operations | Share of the CPU's own time |",
        "|---|---|",
        *(
            f"| {name} | {100 * own / total:.1f} % |"
            for name, own in sorted(found["own_seconds"].items(), key=lambda item: -item[1])
        ),
        "",
        f"Matrix products ran at {found['product_gflops']:.0f} GFLOP/s inside the prediction; the largest alone "
        f"reaches {found['product_gflops_alone']:.0f} here.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
