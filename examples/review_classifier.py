"""Movie reviews: a plain and an RSMI classifier, both attacked on the same sentences, and a page that compares them.

    python examples/review_classifier.py
    python examples/review_classifier.py --limit 6000 --attacked 100 --attack textfooler --out runs/reviews

The data set `mr` and the encoder `minilm` come as packages, so nothing is downloaded. The page to open at the end is
report.html: numbers with intervals, warnings, and every attacked sentence with its changed words. TextFooler needs word
vectors first: `rsmi resources build vectors`.
"""

import argparse
from pathlib import Path

from rsmi import Report, RsmiClassifier, load_data, load_preset
from rsmi.evaluation.accuracy import measure_accuracy
from rsmi.evaluation.jobs import Job
from rsmi.evaluation.running import run_job
from rsmi.evaluation.runs import Run

SEED = 0
NAMES = {"finetune": "plain", "rsmi": "rsmi"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=1000, help="sentences to train on")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--tested", type=int, default=200, help="test sentences for the accuracy")
    parser.add_argument("--attacked", type=int, default=20, help="how many of them are attacked")
    parser.add_argument("--attack", default="pwws", help="pwws, deepwordbug, textfooler, bae, ...")
    parser.add_argument("--base", default="minilm", help="minilm, a model folder or a hub id")
    parser.add_argument("--out", type=Path, default=Path("runs/examples/reviews"))
    options = parser.parse_args()

    train = load_data("mr", "train").take(options.limit, SEED)
    test = load_data("mr", "test").take(options.tested, SEED)
    runs = []
    for method, name in NAMES.items():
        preset = load_preset("minilm/mr", method)  # chosen on the dev split; RSMI goes without masks on short texts
        clf = RsmiClassifier(options.base, preset.config, preset.train_config, seed=SEED)
        clf.set_params(train_config__epochs=options.epochs).fit(train.texts, train.labels)
        clf.save_pretrained(options.out / name)
        accuracy = measure_accuracy(clf, test.texts, test.labels)
        print(
            f"{name}: {accuracy.correct} of {accuracy.total} test sentences right, "
            f"95 % interval [{accuracy.low:.1%}, {accuracy.high:.1%}]"
        )
        runs.append(attacked(options.out / name, options.attack, options.attacked))

    report = Report.from_runs(runs)
    report.save(options.out / "report.html")
    for run in runs:
        own = run.robustness
        print(
            f"\n{run.model} under {run.attack}: right before {own.accuracy} %, after {own.robust_accuracy} %, "
            f"n = {own.accuracy.total}, {own.queries:.0f} queries a sentence"
        )
        show_example(run)
    print("\nread this first:", *report.warnings, sep="\n  ")
    print(f"\nthe whole comparison: {options.out / 'report.html'}")


def attacked(model: Path, attack: str, num: int) -> Run:
    """Attack a saved model; a run that was interrupted goes on where it stopped."""
    file = model.with_suffix(".jsonl")
    job = Job(model=str(model), data="mr", attack=attack, num=num, fresh_draws=20, seed=SEED)
    file.unlink(missing_ok=True)  # the model was trained anew
    for _ in run_job(job.open(), file):
        pass
    return Run.read(file)


def show_example(run: Run) -> None:
    """Print the success that changed the fewest words."""
    fooled = [record for record in run.records if record.outcome == "succeeded"]
    if fooled:
        record = min(fooled, key=lambda own: own.words_changed)
        print(f"  {record.label_before}: {record.original}\n  {record.label_after}: {record.adversarial}")


if __name__ == "__main__":
    main()
