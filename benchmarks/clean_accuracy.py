"""Train and test on clean texts: accuracy of each method over seeds, appended to a JSONL file one run at a time.

A run that is in the file already is not done again, so an interrupted call goes on where it stopped:

    python benchmarks/clean_accuracy.py mr --out benchmarks/results/clean_accuracy.jsonl --methods rsmi finetune
"""

import argparse
import json
import statistics
import time
from pathlib import Path

from environment import environment
from rsmi import RsmiClassifier, RsmiConfig, TrainConfig, load_data
from rsmi.settings import updated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="mr, or a data set of RSMI_DATA such as ag_news")
    parser.add_argument("--out", type=Path, required=True, help="JSONL file the runs are appended to")
    parser.add_argument("--methods", nargs="+", default=["rsmi", "finetune"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--num", type=int, default=2000, help="training texts")
    parser.add_argument("--num-judged", type=int, default=500, help="texts to judge by")
    parser.add_argument("--split", default="test", help="test, or dev to choose settings by")
    parser.add_argument("--set", nargs="*", default=[], help="settings of method and training, such as noise_std=0.1")
    parser.add_argument("--asked", nargs="+", default=["rsmi", "no-mask", "plain"], help="how to ask an RSMI model")
    parser.add_argument("--table", action="store_true", help="write a page of all runs in --out beside it, run nothing")
    options = parser.parse_args()
    if options.table:
        options.out.with_suffix(".md").write_text(page(options.out), encoding="utf-8")
        return
    settings = {name: json.loads(value) for name, value in (item.split("=") for item in options.set)}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    for seed in options.seeds:
        for method in options.methods:
            wanted = {"data": options.data, "method": method, "seed": seed, "settings": settings}
            wanted |= {"num": options.num, "num_judged": options.num_judged, "split": options.split}
            if not any(wanted.items() <= record.items() for record in done):
                record = wanted | run(options.data, method, seed, settings, options)
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(json.dumps({name: record[name] for name in ("data", "method", "seed", "settings", "accuracy")}))


def page(path: Path) -> str:
    """Return mean and standard deviation over seeds of every setting, as Markdown."""
    groups: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        about = (record["data"], record["split"], str(record["num"]), str(record["num_judged"]), record["method"])
        settings = ", ".join(f"{name} {value}" for name, value in record["settings"].items())
        group = groups.setdefault((*about, settings), {})
        for variant, accuracy in record["accuracy"].items():
            group.setdefault(variant, []).append(100 * accuracy)
    lines = [
        f"# Accuracy on clean texts ({path.name})",
        "",
        "Written by `python benchmarks/clean_accuracy.py DATA --out FILE --table`. MiniLM; per cent; mean and standard",
        "deviation over seeds (which draw the training texts, the head, the order and the noise); the texts judged are",
        "the same for all.",
        "",
        "| data | split | training texts | judged | method | settings | asked as | seeds | mean | std | each |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for about, variants in sorted(groups.items()):
        for variant, values in variants.items():
            spread = f"{statistics.stdev(values):.2f}" if len(values) > 1 else ""
            each = ", ".join(f"{value:.1f}" for value in values)
            row = (*about, variant, str(len(values)), f"{statistics.mean(values):.2f}", spread, each)
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def run(
    data: str, method: str, seed: int, settings: dict[str, object], options: argparse.Namespace
) -> dict[str, object]:
    """Train one classifier on a sample of its own and judge it by a sample that is the same for all."""
    train, dev = load_data(data, "train").take(options.num, seed), load_data(data, "dev")
    judged = load_data(data, options.split)
    judged = judged.take(min(options.num_judged, len(judged)), 0)
    dev = dev.take(min(500, len(dev)), seed)
    config = RsmiConfig.variant("rsmi" if method == "rsmi" else "plain")
    own = {name: value for name, value in settings.items() if name in RsmiConfig.__dataclass_fields__}
    config = updated(config, **own) if method == "rsmi" else updated(config, max_length=own.get("max_length", 256))
    rest = {name: value for name, value in settings.items() if name not in RsmiConfig.__dataclass_fields__}
    train_config = TrainConfig.from_dict({"method": method, "group_by_length": True, **rest})
    classifier = RsmiClassifier("minilm", config, train_config, seed=seed, progress=False)
    start = time.monotonic()
    classifier.fit(train.texts, train.labels, dev=(dev.texts, dev.labels))
    seconds = time.monotonic() - start
    accuracy = {}
    for variant in options.asked if method == "rsmi" else ("plain",):
        asked = config.as_variant(variant)
        classifier.set_params(config=asked)
        right = classifier.predict(judged.texts) == judged.labels
        accuracy[variant] = round(float(right.mean()), 4)
    return {
        "accuracy": accuracy,
        "dev": [epoch["dev_accuracy"] for epoch in classifier.training_["history"]],
        "fit_seconds": round(seconds, 1),
        "train_config": train_config.to_dict(),
        "config": config.to_dict(),
        "source": [train.source, judged.source],
        "environment": environment(),
    }


if __name__ == "__main__":
    main()
