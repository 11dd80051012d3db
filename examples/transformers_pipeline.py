"""An RSMI classifier where a transformers pipeline is expected: same calls, same answers in shape, with the defense.

    python examples/transformers_pipeline.py
    python examples/transformers_pipeline.py --model runs/mr

Code written for `transformers.pipeline("text-classification")` goes on working: single texts, lists, `top_k`, data sets
of the library datasets, and generators, which are streamed. Without --model a small classifier is trained first.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import pipeline
from transformers.pipelines.pt_utils import KeyDataset

from rsmi import RsmiClassifier, RsmiConfig, TrainConfig, load_data

SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a trained classifier")
    parser.add_argument("--limit", type=int, default=600, help="sentences to train on, without --model")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--tested", type=int, default=100, help="test sentences in the data set")
    parser.add_argument("--base", default="minilm", help="minilm, a model folder or a hub id")
    parser.add_argument("--out", type=Path, default=Path("runs/examples/pipeline"))
    options = parser.parse_args()

    folder = options.model or trained(options.base, options.limit, options.epochs, options.out)
    plain = pipeline("text-classification", model=str(folder))  # the same weights without the defense
    robust = RsmiClassifier.from_pretrained(folder, seed=SEED).as_pipeline()

    for name, pipe in (("transformers", plain), ("rsmi", robust)):
        print(f"{name}:")
        print("  a text       ", rounded(pipe("a joy to watch from start to end")))
        print("  two texts    ", rounded(pipe(["a joy to watch", "dull and far too long"])))
        print("  all classes  ", rounded(pipe("a joy to watch", top_k=None)))

    test = load_data("mr", "test").take(options.tested, SEED)
    data = Dataset.from_dict({"text": list(test.texts), "label": list(test.labels)})
    for name, pipe in (("transformers", plain), ("rsmi", robust)):
        answers = [answer["label"] for answer in pipe(KeyDataset(data, "text"))]
        right = sum(answer == label for answer, label in zip(answers, data["label"], strict=True))
        print(f"{name} on a data set of {len(data)} sentences: {right} right")

    taken: list[str] = []
    answers = robust(watched(test.texts * 20, taken))  # lazy: nothing has been read yet
    print(
        f"streaming {20 * len(test)} sentences from a generator: {len(taken)} read before the first answer is wanted,"
    )
    first = next(iter(answers))
    print(f"{len(taken)} when it is there: {rounded(first)}")


def trained(base: str, limit: int, epochs: int, folder: Path) -> Path:
    train = load_data("mr", "train").take(limit, SEED)
    settings = TrainConfig(epochs=epochs, learning_rate=1e-4)
    clf = RsmiClassifier(base, RsmiConfig(masking="none"), settings, seed=SEED)
    clf.fit(train.texts, train.labels).save_pretrained(folder)
    print(f"trained on {limit} sentences, saved to {folder}")
    return folder


def watched(texts: Iterable[Any], taken: list[str]) -> Iterator[str]:
    """Yield texts and keep account of what was taken."""
    for text in texts:
        taken.append(text)
        yield text


def rounded(answer: Any) -> Any:
    """Shorten the scores of an answer for printing."""
    if isinstance(answer, list):
        return [rounded(own) for own in answer]
    return {**answer, "score": round(answer["score"], 3)}


if __name__ == "__main__":
    main()
