r"""The settings of `rsmi reproduce --scale small` that the paper's do not fit, chosen on dev texts.

    RSMI_DATA=... RSMI_MODELS=... python benchmarks/small_scale.py --work runs/choice --out results/reproduction/choice

How many masks a text of 24 words bears: the most whose mean accuracy over the data sets is within two points of that of
one mask. How fast the encoders of Table 2 learn `ag_news`, and MiniLM learns `qnli`, which takes more texts and epochs
than the others: the rate with the highest accuracy, for RSMI and for all others. How far FreeLB and InfoBERT climb: the
largest ascent within two points of the best one's accuracy (FreeLB's own leaves it at chance here), on `imdb`, and for
InfoBERT, whose choice for `imdb` cost it ten points on `qnli`, on `qnli`, too. Every model is trained as `rsmi
reproduce` trains it, and no test text is read. What is known of a model is kept in the folder OUT, and such a model is
not trained again, so that an interrupted run goes on, on another machine, too.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from environment import environment, save
from rsmi.evaluation.robustness import Share
from rsmi.experiments.results import Results
from rsmi.experiments.scale import Learning, Scale
from rsmi.experiments.scales import SMALL
from rsmi.experiments.specs import Trained, changes
from rsmi.experiments.training import train

MASKS, DATA, POINTS = (1, 2), ("imdb", "ag_news"), 2.0
RATES = {
    ("roberta-base", "ag_news"): {"rsmi": (1e-4, 3e-4), "finetune": (1e-4, 3e-4)},
    ("t5-large", "ag_news"): {"rsmi": (3e-4, 1e-3), "finetune": (3e-4, 1e-3)},
    ("bert-base", "qnli"): {"rsmi": (1e-4, 2e-4), "finetune": (5e-5, 1e-4)},
}
QNLI_TEXTS, QNLI_EPOCHS = 4000, 3
ASCENTS = {"full": (0.1, 0.4, 0.1), "third": (0.03, 0.12, 0.03), "tenth": (0.01, 0.04, 0.01)}
ASCENDING = (("imdb", "freelb"), ("imdb", "infobert"), ("qnli", "infobert"))


@dataclass(frozen=True)
class Candidate:
    """A model to try: one number of masks, or one learning rate."""

    model: Trained
    rate: float | None = None
    ascent: str | None = None

    @property
    def name(self) -> str:
        """A name for its folder."""
        told = self.ascent if self.rate is None else f"{self.rate:g}"
        return self.model.name if told is None else f"{self.model.name}-{told}"

    @property
    def scale(self) -> Scale:
        """The small scale with its learning rate, or its ascent."""
        if self.ascent is not None:
            own_training = {self.model.method: ascent_settings(self.ascent)}
            harder = {data: replace(own, own_training={}) for data, own in SMALL.harder.items()}
            return replace(SMALL, own_training=own_training, harder=harder)
        if self.rate is None:
            return SMALL
        if self.model.data == "qnli":
            own = Learning(texts=QNLI_TEXTS, epochs=QNLI_EPOCHS, rates=(self.rate, self.rate))
            return replace(SMALL, harder={"qnli": own})
        role = self.model.encoder
        faster = replace(SMALL.encoders[role], rates=(self.rate, self.rate))
        return replace(SMALL, encoders={**SMALL.encoders, role: faster})


def ascent_settings(name: str) -> dict[str, float]:
    """Return the settings of training of an ascent."""
    return dict(zip(("ascent_step_size", "ascent_radius", "ascent_start"), ASCENTS[name], strict=True))


def candidates(chosen_masks: int) -> Iterable[Candidate]:
    """Return the models whose learning rate is chosen; those of RSMI have as many masks as were chosen before."""
    for (encoder, data), methods in RATES.items():
        models = (
            Trained(encoder=encoder, data=data, changes=changes(num_masks=chosen_masks)),
            Trained(encoder=encoder, data=data, method="finetune"),
        )
        for model in models:
            for rate in methods[model.method]:
                yield Candidate(model, rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of models")
    parser.add_argument(
        "--out", type=Path, required=True, help="OUT.json, OUT.md, and OUT/ with what is known of models"
    )
    options = parser.parse_args()
    masked = [
        tried(Candidate(Trained(encoder="bert-base", data=data, changes=changes(num_masks=masks))), options)
        for masks in MASKS
        for data in DATA
    ]
    masks = most_masks(masked)
    rated = [tried(candidate, options) for candidate in candidates(masks)]
    climbed = {
        f"{method} on {data}": {
            name: tried(Candidate(Trained(encoder="bert-base", data=data, method=method), ascent=name), options)
            for name in ASCENTS
        }
        for data, method in ASCENDING
    }
    result = {
        "tried": masked + rated,
        "climbed": climbed,
        "ascents": {place: largest_ascent(rows) for place, rows in climbed.items()},
        "num_masks": masks,
        "rates": {f"{encoder}/{data}": best_rates(rated, encoder, data) for encoder, data in RATES},
        "environment": environment(),
    }
    save(options.out, result, page(result))


def tried(candidate: Candidate, options: argparse.Namespace) -> dict[str, Any]:
    """Train a model, unless it is known, and return its accuracy on dev texts."""
    known: Path = options.out / f"{candidate.name}.json"
    if not known.exists():
        found = train(candidate.model, Results(candidate.scale, options.work), options.work / candidate.name)
        config = found["config"]
        about = {
            "encoder": candidate.model.encoder,
            "data": candidate.model.data,
            "method": candidate.model.method,
            "num_masks": config["num_masks"] if candidate.model.method == "rsmi" else None,
            "learning_rate": found["train_config"]["learning_rate"],
            "right": round(found["dev_accuracy"] * found["dev_texts"]),
            "dev_texts": found["dev_texts"],
            "training_texts": found["training_texts"],
            "epochs": found["train_config"]["epochs"],
            "versions": found["versions"],
        }
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(about) + "\n", encoding="utf-8")
    return dict(json.loads(known.read_text(encoding="utf-8")))


def accuracy(rows: Iterable[Mapping[str, Any]]) -> float:
    """Return the mean over data sets, in %."""
    return 100 * fmean(row["right"] / row["dev_texts"] for row in rows)


def most_masks(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return the most masks that cost at most so many points against one."""
    by_masks = {masks: accuracy([row for row in rows if row["num_masks"] == masks]) for masks in MASKS}
    return max(masks for masks, own in by_masks.items() if own >= by_masks[1] - POINTS)


def best_rates(rows: Iterable[Mapping[str, Any]], encoder: str, data: str) -> list[float]:
    """Return the best learning rates of an encoder on a data set: for RSMI, and for all others."""
    own = [row for row in rows if (row["encoder"], row["data"]) == (encoder, data)]
    return [
        max((row for row in own if row["method"] == method), key=lambda row: (row["right"], -row["learning_rate"]))[
            "learning_rate"
        ]
        for method in ("rsmi", "finetune")
    ]


def largest_ascent(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the largest ascent that costs at most so many points against the best."""
    found = {name: accuracy([row]) for name, row in rows.items()}
    return next(name for name in ASCENTS if found[name] >= max(found.values()) - POINTS)


def page(result: Mapping[str, Any]) -> str:
    """Return the page as Markdown."""
    about = result["environment"]
    lines = [
        "# Settings of the small scale, chosen on dev texts",
        "",
        f"`python benchmarks/small_scale.py`, seed 0, commit {about['commit']}, torch {about['versions']['torch']}, "
        f"transformers {about['versions']['transformers']}. {SMALL.max_words} words of "
        "a text; the best epoch's accuracy in %, one noisy, masked pass a text, 95 % Wilson intervals. No test text",
        "was read.",
        "",
        f"- Masks: **{result['num_masks']}**, the most whose mean accuracy is within {POINTS:g} points of one mask's.",
        *(
            f"- Learning rates of {SMALL.encoders[place.split('/')[0]].label} on {place.split('/')[1]}: "
            f"**{rates[0]:g}** for RSMI, **{rates[1]:g}** else."
            for place, rates in result["rates"].items()
        ),
        *(
            f"- Ascent of {place}: **{name}** ({told_ascent(name)}), the largest whose accuracy is within {POINTS:g} "
            "points of the best's."
            for place, name in result["ascents"].items()
        ),
        "",
        "| Encoder | Data | Method | Masks | Texts | Epochs | Learning rate | Dev accuracy | n |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in result["tried"]:
        share = Share(count=row["right"], total=row["dev_texts"])
        words = (SMALL.encoders[row["encoder"]].label, row["data"], row["method"], row["num_masks"] or "")
        learning = f"{row['training_texts']:,} | {row['epochs']} | {row['learning_rate']:g}"
        lines.append(f"| {' | '.join(map(str, words))} | {learning} | {share} | {share.total} |")
    lines += ["", "| Data | Method | Ascent | Step, radius, start | Dev accuracy | n |", "|---|---|---|---|--:|--:|"]
    for rows in result["climbed"].values():
        for name, row in rows.items():
            share = Share(count=row["right"], total=row["dev_texts"])
            lines.append(
                f"| {row['data']} | {row['method']} | {name} | {told_ascent(name)} | {share} | {share.total} |"
            )
    return "\n".join([*lines, ""])


def told_ascent(name: str) -> str:
    """Return the numbers of an ascent."""
    return ", ".join(f"{value:g}" for value in ASCENTS[name])


if __name__ == "__main__":
    main()
