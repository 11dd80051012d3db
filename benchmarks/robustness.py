r"""Fine-tuned and RSMI models under every protocol: the records and the report of results/evaluation.

    RSMI_DATA=... python benchmarks/robustness.py --work runs/robustness --out results/evaluation

Trains MiniLM on `mr` and `ag_news`, plainly and by RSMI, and attacks both on the same test texts with TextFooler and
PWWS under every protocol that means anything for the model, and with HotFlip. There are so many texts that about 100
are classified rightly and attacked. RSMI is the full method (gradient masks, two steps) with one mask and ten votes in
step two instead of fifty, copies are classified in 8 bits, and of an `ag_news` text the first 14 words are read and
attacked: all to make a run cheaper. Everything goes through the command line and resumes; whatever is finished is left
alone.
"""

import argparse
import subprocess
import sys
from pathlib import Path

TRAINING = {
    "mr": ("--limit", 3000, "--epochs", 3, "--max-length", 64, "--group-by-length"),
    "ag_news": ("--limit", 3000, "--epochs", 2, "--max-length", 64, "--group-by-length"),
}
WORDS = {"mr": 256, "ag_news": 14}
NUM = {"mr": 140, "ag_news": 125}
METHODS = {
    "finetune": ("--method", "finetune"),
    "rsmi": ("--method", "rsmi", "--num-masks", 1, "--learning-rate", 1e-4, "--set", "second_votes=10"),
}
RANDOM = ("transfer", "vote", "fixed-noise", "mask-aware", "persistent")
ATTACKS = ("textfooler", "pwws")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of models")
    parser.add_argument("--out", type=Path, required=True, help="folder of records and report")
    parser.add_argument("--data", choices=list(TRAINING), help="only this one")
    options = parser.parse_args()
    for data in TRAINING:
        if options.data in (None, data):
            measure(data, options)


def measure(data: str, options: argparse.Namespace) -> None:
    """Train both models, attack them and write the report, the dearest last."""
    models = {}
    for method, words in METHODS.items():
        models[method] = options.work / data / method
        if not models[method].exists():
            rsmi("train", data, *words, *TRAINING[data], "--out", models[method], "--resume")
    runs = [(method, attack, "paper") for method in METHODS for attack in ATTACKS]
    runs += [(method, attack, "temperature") for method in METHODS for attack in ATTACKS]
    runs += [("rsmi", attack, protocol) for protocol in RANDOM for attack in ATTACKS]
    runs += [(method, "hotflip", "white-box") for method in METHODS]
    runs += [("rsmi", attack, "eot") for attack in ATTACKS]
    done: list[Path] = []
    for method, attack, protocol in runs:
        file = options.out / data / f"{method}.{attack}.{protocol}.jsonl"
        about = ("--attack", attack, "--protocol", protocol, "--num", NUM[data], "--draws", 5, "--tries", 3)
        about = (*about, "--max-words", WORDS[data])
        kept = () if protocol == "paper" else ("--no-evidence",)
        cost = ("--fresh-draws", 100, "--workers", 2, "--token-budget", 512)
        cost = (*cost, "--backend", "int8" if method == "rsmi" else "torch")
        rsmi("attack", models[method], data, *about, *cost, *kept, "--out", file, "--resume")
        done.append(file)
    pages = [word for name in ("report.html", "report.md") for word in ("--out", options.out / data / name)]
    rsmi("report", *done, *pages, "--max-examples", 40)


def rsmi(*words: object) -> None:
    """Run a command."""
    subprocess.run([sys.executable, "-m", "rsmi", *map(str, words)], check=True)


if __name__ == "__main__":
    main()
