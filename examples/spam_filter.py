"""A spam filter as a guard: it keeps a promise about false positives, and nothing hides at the end of a long mail.

    python examples/spam_filter.py
    python examples/spam_filter.py --data mail.csv --max-fpr 0.01 --out runs/my-filter

It trains on half of the messages, chooses its thresholds on a third and judges the rest. Shown are the threshold for
blocking, the band that goes to a person, an allow-list, a long mail read in windows, and what the guard does with spam
that an attack has misspelled. Without --data it takes examples/data/spam.csv, 280 messages made up for this example:
they show how it works, not how well. A file of your own needs a column with the text and one with the label.
"""

import argparse
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from rsmi import Guard, RsmiClassifier, RsmiConfig, TextDataset, TrainConfig, load_data
from rsmi.attacks.deepwordbug import DeepWordBug
from rsmi.data import stratified_split

SEED = 0
APPOINTMENT = "Reply YES now to confirm your appointment. Text STOP to end these reminders."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data" / "spam.csv")
    parser.add_argument("--positive", default="spam", help="the class to guard against")
    parser.add_argument("--max-fpr", type=float, default=0.1, help="largest share of good mail that may be blocked")
    parser.add_argument("--max-review", type=float, default=0.25, help="... that may be blocked or reviewed")
    parser.add_argument("--limit", type=int, help="use so many messages only")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--attacked", type=int, default=8, help="spam messages to attack")
    parser.add_argument("--base", default="minilm", help="minilm, a model folder or a hub id")
    parser.add_argument("--out", type=Path, default=Path("runs/examples/spam"))
    options = parser.parse_args()

    data = load_data(options.data, "all")
    data = data.take(min(options.limit or len(data), len(data)), SEED, stratified=True)
    train, rest = split(data, 0.5)
    dev, test = split(rest, 0.3)
    print(f"{len(train)} messages to train on, {len(dev)} to choose thresholds on, {len(test)} to judge")

    # short messages: windows of 64 tokens, and one hidden word a copy rather than the paper's two
    config = RsmiConfig(num_masks=1, max_length=64)
    settings = TrainConfig(epochs=options.epochs, learning_rate=1e-4, batch_size=8)
    clf = RsmiClassifier(options.base, config, settings, seed=SEED).fit(train.texts, train.labels)
    guard = clf.calibrate(
        dev.texts,
        dev.labels,
        positive=options.positive,
        max_fpr=options.max_fpr,
        max_review=options.max_review,
        allow=[APPOINTMENT],
    )
    clf.save_pretrained(options.out)
    guard.save(options.out)
    guard = Guard.load(options.out, RsmiClassifier.from_pretrained(options.out, seed=SEED))  # as a service would
    show_thresholds(guard)

    rulings = guard.check(test.texts)
    with (options.out / "rulings.jsonl").open("w", encoding="utf-8") as file:
        for ruling, label in zip(rulings, test.labels, strict=True):
            file.write(json.dumps({"label": label, **ruling.to_dict()}) + "\n")
    for name in (options.positive, *sorted({str(label) for label in test.labels} - {options.positive})):
        actions = Counter(own.action for own, label in zip(rulings, test.labels, strict=True) if label == name)
        told = ", ".join(f"{actions[action]} {action}" for action in ("block", "review", "pass"))
        print(f"{name} among the messages to judge: {told} (n = {actions.total()})")

    (ruling,) = guard.check([f"  {APPOINTMENT}\n"])
    print(f"\non the allow-list: {ruling.action} ({ruling.reason}); {APPOINTMENT}")
    good = [str(text) for text, label in zip(test.texts, test.labels, strict=True) if label != options.positive]
    spam = [str(text) for text, label in zip(test.texts, test.labels, strict=True) if label == options.positive]
    hidden = max(spam, key=lambda text: guard.check([text])[0].score)
    show_long_mail(guard, " ".join(good[:8]), hidden)
    show_attack(guard, spam[: options.attacked])
    print(f"\nmodel, thresholds and rulings are in {options.out}")


def split(data: TextDataset, fraction: float) -> tuple[TextDataset, TextDataset]:
    """Return what is kept, and `fraction` of each class."""
    kept, held = stratified_split(data.labels, fraction, SEED)
    return data.rows(kept), data.rows(held)


def show_thresholds(guard: Guard) -> None:
    for name, own in (("block", guard.block), ("review", guard.review)):
        if own is not None:
            print(
                f"{name} above {own.value:.3f}: {own.false_positives} of {own.negatives} good dev messages, "
                f"{own.caught} of {own.positives} bad ones; with confidence {own.confidence:.3f} at most "
                f"{own.max_rate:.0%} of all good ones"
            )


def show_long_mail(guard: Guard, ordinary: str, hidden: str) -> None:
    """Put a message behind eight ordinary ones: the classifier alone would not read so far."""
    before, after = guard.check([ordinary, f"{ordinary} {hidden}"])
    print(f"a long ordinary mail, read in {before.windows} windows: {before.action}, worst score {before.score:.2f}")
    print(f"the same with one more message at its end: {after.action}, worst score {after.score:.2f}; {hidden}")


def show_attack(guard: Guard, spam: list[str]) -> None:
    """Misspell spam until the classifier takes it for good mail, and ask the guard what it does with the result."""
    clf = guard.classifier.with_config(replace(guard.classifier.config_, aggregation="logit-average"))
    attack = DeepWordBug(max_queries=300, fresh_draws=0)
    records = [record for _, record in attack.run(clf, spam, [guard.positive] * len(spam), seed=SEED)]
    fooled = [record for record in records if record.outcome == "succeeded"]
    print(f"\nDeepWordBug misspelled {len(spam)} spam messages and fooled the classifier with {len(fooled)}")
    for record, ruling in zip(fooled, guard.check([own.adversarial for own in fooled]), strict=True):
        print(f"  the guard says {ruling.action} (score {ruling.score:.2f}): {record.adversarial}")


if __name__ == "__main__":
    main()
