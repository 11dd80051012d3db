"""Time and memory of a training step of each method against plain fine-tuning, in one run (part of `make bench`).

Every repeat runs all methods in turn on the same batches, so that whatever else the machine does meets all of them.
Memory is the peak of a process that trains by one method only, less what it held before its first step.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import psutil

from environment import environment
from rsmi import RsmiClassifier, RsmiConfig, TrainConfig, load_data
from rsmi.evaluation.timing import Clock

METHODS = ("finetune", "rsmi", "freelb", "infobert")
BATCH, LENGTH, SEED = 16, 64, 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=8, help="updates of each method a repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    parser.add_argument("--memory-of", choices=METHODS, help="train by this method and print its peak memory")
    options = parser.parse_args()
    if options.memory_of:
        print(peak_of(options.memory_of, options.updates))
        return
    medians: dict[str, list[float]] = {method: [] for method in METHODS}
    for repeat in range(options.repeats):
        for method in METHODS if repeat % 2 == 0 else METHODS[::-1]:
            seconds = train(method, options.updates)
            medians[method].append(statistics.median(seconds[2:]))  # the first updates warm up
            print(f"repeat {repeat}: {method} {medians[method][-1]:.3f} s an update", file=sys.stderr)
    memory = {method: [peak_in_process(method, options.updates) for _ in range(2)] for method in METHODS}
    result = {"batch": BATCH, "length": LENGTH, "updates": options.updates, "repeats": options.repeats, "seed": SEED}
    for method in METHODS:
        ratios = [own / plain for own, plain in zip(medians[method], medians["finetune"], strict=True)]
        result[method] = {
            "time_ratio": round(statistics.median(ratios), 3),
            "time_ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
            "seconds_an_update": [round(own, 4) for own in medians[method]],
            "peak_mib": memory[method],
            "memory_ratio": round(statistics.median(memory[method]) / statistics.median(memory["finetune"]), 3),
        }
    result["environment"] = environment()
    text = json.dumps(result, indent=2)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n", encoding="utf-8")
    checks = {
        "an RSMI step takes at most 1.7 x a fine-tuning step": result["rsmi"]["time_ratio"] <= 1.7,
        "RSMI's peak memory is at most 1.25 x that of fine-tuning": result["rsmi"]["memory_ratio"] <= 1.25,
    }
    failed = [claim for claim, holds in checks.items() if not holds]
    if failed:
        sys.exit("does not hold: " + "; ".join(failed))


def train(method: str, updates: int) -> list[float]:
    """Train `updates` updates on whole batches of texts cut to one length; return the seconds of each."""
    config = RsmiConfig(max_length=LENGTH) if method == "rsmi" else RsmiConfig.variant("plain", max_length=LENGTH)
    settings = TrainConfig(method=method, epochs=1, batch_size=BATCH, dev_fraction=0.0)
    data = load_data("imdb", "train").take(BATCH * updates, SEED)  # reviews are longer than LENGTH: no padding
    clock = Clock()
    classifier = RsmiClassifier("minilm", config, settings, seed=SEED, progress=False)
    classifier.fit(data.texts, data.labels, callbacks=[clock])
    return clock.seconds


def peak_of(method: str, updates: int) -> float:
    """Return the largest resident memory (MiB) of training, less that of the process once it has read its data."""
    load_data("imdb", "train").take(BATCH * updates, SEED)
    before = psutil.Process().memory_info().rss
    train(method, updates)
    status = Path("/proc/self/status").read_text()
    peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024
    return round((peak - before) / 2**20, 1)


def peak_in_process(method: str, updates: int) -> float:
    """Measure `peak_of` in a fresh process."""
    words = [sys.executable, __file__, "--memory-of", method, "--updates", str(updates)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
