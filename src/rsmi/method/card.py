"""Settings of a classifier -> its model card: `README.md` as model hubs show it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rsmi.config import RsmiConfig
from rsmi.method.inference import is_random
from rsmi.method.pretrained import EMBEDDED
from rsmi.records import Label

MARKER: Final = "<!-- written by rsmi; without this line the card is yours, and saving again keeps it -->"
"""What tells a card that may be written anew from one that somebody has made his own."""
_EMBEDDED_ID: Final = "sentence-transformers/all-MiniLM-L6-v2"
_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_LOCAL: Final = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|file:", re.ASCII)
_COUNTS: Final = {
    "num_texts": "training texts",
    "num_added_texts": "adversarial texts among them",
    "num_dev_texts": "dev texts",
}


def model_card(
    architecture: str, classes: Sequence[Label], config: RsmiConfig, training: Mapping[str, Any], version: str
) -> str:
    """Return the card: the same for the same arguments, and without a word about the disk it was made on.

    Args:
        architecture: Class of the model, such as `BertForSequenceClassification`.
        classes: The labels.
        config: Settings of the method.
        training: The record of the training, as far as there is one.
        version: Of rsmi.
    """
    random, base = is_random(config), _base_model(training.get("base"))
    parts = [
        _front_matter(base, random),
        MARKER,
        f"# Text classifier ({len(classes)} classes)",
        _what(architecture, base, random, version),
        "## Classes\n\n" + _code(list(classes)),
        "## Settings of the method\n\n" + _table(config.to_dict()),
        "## Training\n\n" + _training(training),
        "## Use\n\n" + _USE,
        "## Limits\n\n" + "\n".join(f"- {line}" for line in _limits(random)),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(base: str | None, random: bool) -> str:
    lines = ["library_name: rsmi", "pipeline_tag: text-classification"]
    lines += [f"base_model: {base}"] if base else []
    tags = ["rsmi", "text-classification"] + (["adversarial-robustness", "randomized-smoothing"] if random else [])
    return "\n".join(["---", *lines, "tags:", *(f"- {tag}" for tag in tags), "---"])


def _what(architecture: str, base: str | None, random: bool, version: str) -> str:
    origin = f", trained from `{base}`" if base else ""
    defended = (
        "Its answer is a vote over random copies of the text (noise, masks or other words, see the settings): "
        "randomized smoothing with masked inference, Moon et al., ACL 2023."
        if random
        else "It answers without randomness: an undefended classifier, or one defended by its training alone."
    )
    return f"A `{architecture}`{origin}. {defended} Saved by rsmi {version}."


def _training(training: Mapping[str, Any]) -> str:
    settings = training.get("train_config")
    if not isinstance(settings, Mapping):
        return "Not known: the classifier was not trained by rsmi."
    facts = [f"{training[name]:,} {what}" for name, what in _COUNTS.items() if isinstance(training.get(name), int)]
    history = training.get("history")
    epochs = [own for own in history if isinstance(own, Mapping)] if isinstance(history, list) else []
    scores = [own["dev_accuracy"] for own in epochs if isinstance(own.get("dev_accuracy"), float)]
    if scores:
        facts.append(f"best dev accuracy {max(scores):.3f}, on the texts that chose the epoch: a little too high")
    said = "; ".join(facts)
    shown = {name: value for name, value in {"seed": training.get("seed"), **settings}.items() if value is not None}
    return (f"{said[:1].upper()}{said[1:]}.\n\n" if said else "") + _table(shown)


_USE: Final = """```python
from rsmi import RsmiClassifier

clf = RsmiClassifier.from_pretrained("this folder or its id on a hub")
clf.predict(["..."])
```

transformers alone loads the weights, too, and then answers without the defense. Safetensors, no pickle, no code."""


def _limits(random: bool) -> list[str]:
    defense = [
        "A randomised defense is not a guarantee. It makes some attacks fail more often; an attacker who adapts to it "
        "may succeed where those fail. Measure it: `rsmi evaluate --suite standard`.",
        "Answers are random unless a seed is given, and close votes may differ from call to call.",
    ]
    return [
        *(defense if random else ["Nothing here resists an attacker who searches for words that change the answer."]),
        "A certificate (`rsmi certify`) covers what it names and nothing else: one kind of change, up to its radius, "
        "wrong with the chance it states. This card claims none.",
        "Writing this card measured nothing: neither accuracy on your texts nor fairness between groups.",
        "The license of the weights is that of the base model and the data; it is not known here.",
    ]


def _base_model(base: object) -> str | None:
    """Return the hub id of the base model, unless it was a folder of this machine."""
    if base == EMBEDDED:
        return _EMBEDDED_ID
    if not isinstance(base, str) or not _HUB_ID.fullmatch(base) or Path(base).exists():
        return None
    return base


def _table(values: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in values.items() if not (isinstance(value, str) and _LOCAL.match(value))}
    return "\n".join(["| setting | value |", "|---|---|", *(f"| {_cell(k)} | `{_cell(v)}` |" for k, v in kept.items())])


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return " ".join(text.split()).replace("|", "\\|").replace("`", "'")


def _code(value: Any) -> str:
    return f"```json\n{json.dumps(value, ensure_ascii=False)}\n```"  # one line: no label can end the block
