"""Memory of `predict` on many texts: resident memory over time must stay flat (run by `make bench`)."""

import argparse
import json
import sys
import threading
import time
from pathlib import Path

import psutil

from environment import environment
from rsmi import RsmiClassifier, load_data

SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num", type=int, default=10_000, help="texts to classify")
    parser.add_argument("--model", type=Path, default=Path("runs/demo/rsmi"), help="classifier, by default the demo's")
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the result")
    options = parser.parse_args()

    texts = [text for split in ("train", "dev", "test") for text in load_data("mr", split).texts]
    # the sentences of mr are distinct; a number in front makes as many further ones as are asked for
    texts = [texts[i % len(texts)] if i < len(texts) else f"{i} {texts[i % len(texts)]}" for i in range(options.num)]
    classifier = RsmiClassifier.from_pretrained(options.model, seed=SEED, progress=True)

    samples: list[tuple[float, float]] = []
    done = threading.Event()
    watcher = threading.Thread(target=watch, args=(samples, done), daemon=True)
    start = time.monotonic()
    watcher.start()
    labels = classifier.predict(texts)
    done.set()
    watcher.join()
    seconds = time.monotonic() - start

    result = summarise(samples)
    result |= {"texts": len(labels), "seconds": round(seconds, 1), "seed": SEED, "config": classifier.config_.to_dict()}
    result |= {"token_budget": classifier.token_budget, "environment": environment()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({name: result[name] for name in ("texts", "seconds", "peak_mib", "by_tenth_mib", "growth")}))
    if result["growth"] > 0.05:
        sys.exit("memory grew by more than 5 % from the second to the last tenth of the run")


def watch(samples: list[tuple[float, float]], done: threading.Event) -> None:
    """Note resident memory (MiB) four times a second."""
    process = psutil.Process()
    while not done.wait(0.25):
        samples.append((time.monotonic(), process.memory_info().rss / 2**20))


def summarise(samples: list[tuple[float, float]]) -> dict[str, object]:
    """Return the largest resident memory in each tenth of the run, and how much it grew after the first tenth."""
    first, last = samples[0][0], samples[-1][0]
    tenths: list[float] = [0.0] * 10
    lowest: list[float] = [float("inf")] * 10  # what is held between chunks of texts
    for moment, mib in samples:
        place = min(9, int(10 * (moment - first) / (last - first)))
        tenths[place] = max(tenths[place], mib)
        lowest[place] = min(lowest[place], mib)
    return {
        "peak_mib": round(max(tenths), 1),
        "by_tenth_mib": [round(mib, 1) for mib in tenths],
        "held_by_tenth_mib": [round(mib, 1) for mib in lowest],
        "growth": round(tenths[-1] / tenths[1] - 1, 4),
    }


if __name__ == "__main__":
    main()
