r"""What 1,000 draws for each of 100 `mr` sentences take, by kind of certificate.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/certify_speed.py --words MODEL --noise MODEL --hidden MODEL --out OUT

`--words` was trained with hidden words (`--variant ranmask`), `--noise` with noise at the embeddings, `--hidden` by
RSMI. Draws, early stopping and bounds are those of `rsmi certify`; the models are loaded before the clock starts.
Beside each time stands how many plain passes of the same texts it is, padded to the longest of 32, in the same run.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from environment import environment, save
from rsmi import RsmiClassifier, load_data

NUM, DRAWS, SELECTION = 100, 1000, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=Path, help="model for l0-mask")
    parser.add_argument("--noise", type=Path, help="model for l2-embedding")
    parser.add_argument("--hidden", type=Path, help="model for l2-hidden")
    parser.add_argument("--backend", default="torch")
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    texts = list(load_data("mr", "test").take(NUM, 0).texts)
    models = {"l0-mask": options.words, "l2-embedding": options.noise, "l2-hidden": options.hidden}
    rows = [measure(kind, model, texts, options.backend) for kind, model in models.items() if model is not None]
    result = {"rows": rows, "backend": options.backend, "environment": environment()}
    save(options.out, result, page(result))


def measure(kind: str, model: Path, texts: list[str], backend: str) -> dict[str, Any]:
    """Time certificates and plain passes."""
    classifier = RsmiClassifier.from_pretrained(model, seed=0, backend=backend, progress=True)
    masking = {"masking": "in-noise"} if kind == "l2-hidden" and classifier.config_.masking == "gradient" else {}
    settings: dict[str, Any] = {"kind": kind, "estimation_samples": DRAWS, "selection_samples": SELECTION, **masking}
    classifier.certify(texts[:1], **{**settings, "estimation_samples": 100})  # what is set up at the first call
    started = time.perf_counter()
    certificates = classifier.certify(texts, **settings)
    seconds = time.perf_counter() - started
    return {
        "kind": kind,
        "model": str(model),
        "texts": len(texts),
        "draws": DRAWS,
        "seconds": round(seconds, 1),
        "certified": sum(own.radius > 0 for own in certificates),
        "plain_passes": round(seconds / plain_second(classifier, texts), 1),
    }


def plain_second(classifier: RsmiClassifier, texts: list[str]) -> float:
    """Return the seconds of one plain pass of all texts."""
    loaded = classifier.engine().loaded
    started = time.perf_counter()
    with torch.inference_mode():
        for i in range(0, len(texts), 32):
            loaded.encoder.model(**loaded.tokenizer(texts[i : i + 32], padding=True, return_tensors="pt"))
    return time.perf_counter() - started


def page(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    where = result["environment"]
    lines = [
        "# Time of certificates",
        "",
        f"`python benchmarks/certify_speed.py`: {NUM} mr sentences, {SELECTION} + {DRAWS} draws, backend "
        f"{result['backend']}, {where['cores']} cores, commit {where['commit']}, torch {where['versions']['torch']}.",
        "",
        "| kind | minutes | target | in plain passes of the texts | certified |",
        "|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        lines.append(
            f"| {row['kind']} | {row['seconds'] / 60:.1f} | 10 | {row['plain_passes']} | {row['certified']} of {NUM} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
