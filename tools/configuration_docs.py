"""Write docs/reference/configuration.md from the settings' dataclasses (run by `make docs`; a test compares them)."""

import json
from dataclasses import fields
from pathlib import Path
from statistics import fmean
from typing import Any

from field_docs import fields_of, table, written

from rsmi.certify import CertifyConfig
from rsmi.config import PROFILES, VARIANTS, RsmiConfig, TrainConfig
from rsmi.evaluation.robustness import Share
from rsmi.presets import PRESETS, load_preset

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "reference" / "configuration.md"

_INTRO = """# Configuration

Written by `make docs` from the dataclasses themselves. Settings are frozen and checked when they are made; an unknown
name or a value out of range is refused with what was expected.

- **Python**: `RsmiClassifier("minilm", RsmiConfig(noise_std=0.3), TrainConfig(epochs=5))`.
- **Command line**: `rsmi train ... --set NAME=VALUE` sets any field of `RsmiConfig` and `TrainConfig`; the usual ones
  have options of their own ([command line](../cli.md)). Values are JSON (`--set noise_layers=[0,4,8]`); what is no
  JSON is a word (`--set precision=bf16`).
- **Files**: a saved model has its settings in `rsmi_config.json`; `RsmiConfig.from_dict` and `to_dict` read and write
  them.
"""
_CONFIG = "Saved with a model, and in force whenever it is asked."
_TRAIN = "What only training needs; it is kept with a model for the record."
_CERTIFY = "Arguments of `RsmiClassifier.certify`, and options of `rsmi certify`. The kind is chosen to suit the model."
_VARIANTS = """A variant changes some fields of `RsmiConfig` and leaves the others: `RsmiConfig.variant("no-mask")`,
`--variant no-mask`. On a trained model it changes the model's own settings in these fields only."""
_PROFILES = """A profile is all of `RsmiConfig` that matters, for those who do not tune: `RsmiClassifier("minilm",
profile="balanced")`, `RsmiConfig.profile("balanced", max_length=128)`, `rsmi train DATA --profile balanced`. Measured
on test texts of three data sets with two encoders, in % with 95 % intervals, beside plain fine-tuning; under attack:
by PWWS and by DeepWordBug; cost: the time of a prediction in plain forward passes ([how, and every other
setting](../../results/profiles/README.md))."""
_PRESETS = """A preset is a base model with settings: `load_preset("paper/roberta-base/imdb")`, `rsmi train DATA
--preset NAME`. Those of the paper (Table 9, and its text for the large models) have ten epochs; those of the
embedded encoder were chosen on dev texts ([runs](../../results/training/dev.md))."""


def markdown() -> str:
    """Return the page."""
    parts = [_INTRO]
    for thing, about in ((RsmiConfig, _CONFIG), (TrainConfig, _TRAIN), (CertifyConfig, _CERTIFY)):
        parts += [f"## {thing.__name__}", "", about, "", *table(fields_of(thing), with_default=True), ""]
    parts += ["## Variants", "", _VARIANTS, "", "| Variant | Fields |", "|---|---|"]
    parts += [f"| `{name}` | {_set(own) or 'as they are'} |" for name, own in VARIANTS.items()]
    parts += ["", "## Profiles", "", _PROFILES, "", *profiles()]
    parts += ["", "## Presets", "", _PRESETS, "", "| Preset | Base | RsmiConfig | TrainConfig |", "|---|---|---|---|"]
    parts += [_preset(name) for name in PRESETS]
    return "\n".join(parts) + "\n"


def profiles() -> list[str]:
    """Return the table of profiles with what each was measured to do."""
    found = json.loads((ROOT / "results" / "profiles" / "profiles.json").read_text(encoding="utf-8"))
    lines = ["| Profile | Fields | Right answers | Right under attack | Cost |", "|---|---|--:|--:|--:|"]
    for name in ("fine-tuned", *PROFILES):
        rows = [row for row in found["test"] if row["setting"] == found["names"].get(name, name)]
        fields_set = _set(PROFILES[name]) if name in PROFILES else "not a profile"
        shown = f"`{name}`" if name in PROFILES else name
        clean, robust = (_pooled(rows, *names) for names in (("right", "judged"), ("robust", "attacked")))
        cost = fmean(row["passes"] for row in rows)
        lines.append(
            f"| {shown} | {fields_set} | {clean}, n = {clean.total:,} | {robust}, n = {robust.total} | {cost:.1f} |"
        )
    return lines


def _pooled(rows: list[dict[str, Any]], count: str, total: str) -> Share:
    return Share(count=sum(row[count] for row in rows), total=sum(row[total] for row in rows))


def _preset(name: str) -> str:
    own = load_preset(name)
    differing = [
        {
            field.name: getattr(config, field.name)
            for field in fields(config)
            if getattr(config, field.name) != field.default
        }
        for config in (own.config, own.train_config)
    ]
    return f"| `{name}` | `{own.base}` | {' | '.join(_set(values) or 'defaults' for values in differing)} |"


def _set(values: dict[str, object]) -> str:
    return ", ".join(f"`{name}={written(value)}`" for name, value in values.items())


if __name__ == "__main__":
    TARGET.write_text(markdown(), encoding="utf-8")
