r"""What noise, masks and votes cost and protect, and the profiles `fast`, `balanced`, `robust` chosen by it.

    RSMI_DATA=... RSMI_MODELS=... python benchmarks/profiles.py --work runs/profiles --out results/profiles

Settings are trained on three data sets with two encoders and attacked on dev texts with PWWS and DeepWordBug; a
text counts as robust if it is right under both. Under attack, copies are classified in 8 bits, and of a text the first
20 words are read. The rule below then names the profiles, and what it names is attacked once more, on test texts.
Whatever is finished is left alone, so that an interrupted run goes on, and processes share the work: start it once for
each core, with OMP_NUM_THREADS=1. Writes records, profiles.json, trade-off.svg and README.md.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from environment import environment
from profiles_page import ANYWHERE, ONE_DRAW, TOLERANCE, page, trade_off
from rsmi.config import VARIANTS
from rsmi.evaluation.runs import mcnemar, worst_case
from rsmi.experiments.items import Item
from rsmi.experiments.results import Results
from rsmi.experiments.running import Progress, reproduce
from rsmi.experiments.scales import SMALL
from rsmi.experiments.specs import Attacked, Measured, Step, Trained, changes
from rsmi.report.numbers import holm
from rsmi.writing import write_text

ATTACKS = ("pwws", "deepwordbug")
DATA = ("mr", "ag_news", "sms_spam")
SCALE = replace(
    SMALL,
    name="profiles",
    encoders={
        "minilm": SMALL.encoders["bert-base"],
        "granite-30m": replace(SMALL.encoders["roberta-base"], settings={}),
    },
    compared=("minilm", "granite-30m"),
    large=(),
    studied="minilm",
    pairs="minilm",
    num=40,
    max_words=20,
    train_texts=1000,
    test_texts=300,
    timed=32,
    settings={"max_length": 64},
    own_settings={},
    own_training={},
    harder={},
)
"""Short texts, few of them, and the learning rates of the small scale (results/reproduction/choice.md)."""


@dataclass(frozen=True)
class Setting:
    """One way to train and ask a model."""

    noise: float = 0.0
    """In spreads of the encoder's own hidden states; 0 is plain fine-tuning."""
    masks: int = 0
    once: bool = False
    """Ask a single noisy copy instead of the two-step vote."""

    @property
    def name(self) -> str:
        """Such as `noise 0.4, 1 mask, votes`."""
        if not self.noise:
            return "fine-tuned"
        masks = f"{self.masks or 'no'} mask{'' if self.masks == 1 else 's'}"
        return f"noise {self.noise}, {masks}, {'one copy' if self.once else 'votes'}"

    @property
    def training(self) -> dict[str, Any]:
        """Fields of RsmiConfig that training depends on: settings that differ in the votes alone share a model."""
        own: dict[str, Any] = {"noise_std": self.noise, "noise_unit": "spread"}
        return own | ({"num_masks": self.masks} if self.masks else {"masking": "none"})

    @property
    def asking(self) -> dict[str, Any]:
        """Fields of RsmiConfig that set the answer of a trained model apart."""
        if self == PLAIN:
            return {}
        return {"two_step": False, "first_votes": 1} if self.once else {"first_votes": 5, "second_votes": 10}

    def model(self, data: str, encoder: str) -> Trained:
        """Return the model of this setting."""
        if self == PLAIN:
            return Trained(encoder=encoder, data=data, method="finetune")
        return Trained(encoder=encoder, data=data, changes=changes(**self.training))

    def attacked(self, data: str, encoder: str, purpose: Literal["choose", "test"]) -> list[Attacked]:
        """Return the attacks on it."""
        model, asked = self.model(data, encoder), changes(**self.asking)
        return [Attacked(model=model, attack=attack, changes=asked, purpose=purpose) for attack in ATTACKS]

    def judged(self, data: str, encoder: str, split: Literal["dev", "test"]) -> Measured:
        """Return its accuracy on more texts."""
        asked = (changes(**self.asking),)
        return Measured(what="accuracy", models=(self.model(data, encoder),), changes=asked, split=split)

    def timed(self, data: str, encoder: str) -> Measured:
        """Return its time against one plain pass of the same network."""
        model, asked = self.model(data, encoder), (changes(**VARIANTS["plain"]), changes(**self.asking))
        return Measured(what="inference-time", models=(model, model), changes=asked, split="dev")


PLAIN = Setting()
SETTINGS = (
    PLAIN,
    *(Setting(0.4, once=once) for once in (True, False)),
    *(Setting(0.4, masks) for masks in (1, 2)),
)
PLACES = tuple((data, encoder) for data in DATA for encoder in SCALE.encoders)
TRIED = (*(Setting(0.8, once=once) for once in (True, False)), Setting(0.8, masks=1))
"""Settings of which granite-30m learnt nothing on the first data set, so that they were not followed up."""
TRIED_AT = tuple(place for place in PLACES if place[0] == DATA[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of models")
    parser.add_argument("--out", type=Path, required=True, help="folder of records and page")
    options = parser.parse_args()
    results = Results(SCALE, options.out)
    run(results, options.work, dev_steps())
    chosen = choose(dev := measured(results, SETTINGS, PLACES, "dev"))
    named = tuple(setting for setting in SETTINGS if setting in (PLAIN, *chosen.values()))
    run(results, options.work, test_steps(named))
    result = {
        "dev": [about.to_dict() for about in dev],
        "tried": [about.to_dict() for about in measured(results, TRIED, TRIED_AT, "dev")],
        "test": [about.to_dict() for about in measured(results, named, PLACES, "test")],
        "paired": paired(results, named),
        "profiles": {name: setting.training | setting.asking for name, setting in chosen.items()},
        "names": {name: setting.name for name, setting in chosen.items()},
        "training": SCALE.told_texts(),
        "seed": 0,
        "environment": environment(),
    }
    write_text(options.out / "profiles.json", json.dumps(result, indent=1) + "\n")
    write_text(options.out / "README.md", page(result))
    write_text(options.out / "trade-off.svg", trade_off(result))


def run(results: Results, models: Path, steps: tuple[Step, ...]) -> None:
    """Do all steps that are not done yet."""
    item = Item("profiles", "Profiles", lambda _scale: steps, lambda _results: [], lambda _results: [])
    reproduce((item,), results, models, tell=told)


def told(progress: Progress) -> None:
    """Say what comes next."""
    left = "" if progress.seconds_left is None else f", {progress.seconds_left / 60:.0f} min left"
    sys.stderr.write(f"[{progress.number}/{progress.total}{left}] {progress.step.name}\n")


def dev_steps() -> tuple[Step, ...]:
    """Return all that the choice rests on."""
    return tuple(
        step
        for place in PLACES
        for own in (*SETTINGS, *(TRIED if place in TRIED_AT else ()))
        for step in (*own.attacked(*place, "choose"), own.judged(*place, "dev"), own.timed(*place))
    )


def test_steps(named: Iterable[Setting]) -> tuple[Step, ...]:
    """Return what tells how good the choice is."""
    return tuple(
        step
        for own in named
        for place in PLACES
        for step in (*own.attacked(*place, "test"), own.judged(*place, "test"))
    )


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a setting did on one data set with one encoder."""

    setting: Setting
    data: str
    encoder: str
    right: int
    judged: int
    robust: int
    attacked: int
    passes: float
    """Time of a prediction in plain forward passes of the same texts, a median over repeats."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**vars(self), "setting": self.setting.name}


def measured(
    results: Results, settings: Sequence[Setting], places: Sequence[tuple[str, str]], split: Literal["dev", "test"]
) -> list[Found]:
    """Read back what was found of settings, place by place."""
    found = []
    for data, encoder in places:
        for own in settings:
            purpose: Literal["choose", "test"] = "choose" if split == "dev" else "test"
            robust = worst_case([results.run(cell) for cell in own.attacked(data, encoder, purpose)])
            clean = results.measure(own.judged(data, encoder, split))
            ratios = sorted(results.measure(own.timed(data, encoder))["times"][1]["ratios"])
            found.append(
                Found(
                    setting=own,
                    data=data,
                    encoder=encoder,
                    right=clean["correct"],
                    judged=clean["total"],
                    robust=sum(robust),
                    attacked=len(robust),
                    passes=ratios[len(ratios) // 2],
                )
            )
    return found


def paired(results: Results, named: Sequence[Setting]) -> list[dict[str, Any]]:
    """Compare every two settings on the same test texts, all places together: exact McNemar tests, with Holm's p."""
    fine = {
        own: [
            each
            for place in PLACES
            for each in worst_case([results.run(cell) for cell in own.attacked(*place, "test")])
        ]
        for own in named
    }
    couples = list(combinations(reversed(named), 2))
    tests = [mcnemar(fine[first], fine[second]) for first, second in couples]
    corrected = holm([test.p_value for test in tests])
    return [
        {"first": first.name, "second": second.name, **asdict(test), "corrected": value}
        for (first, second), test, value in zip(couples, tests, corrected, strict=True)
    ]


def choose(found: Iterable[Found]) -> dict[str, Setting]:
    """Return, for each profile, the setting that holds up best in the mean among those that it allows.

    Where all that is quick enough costs too much accuracy, that is the one that costs least of it. The bound of each
    single place is there since a model that noise has unlearnt all but one answer holds up under any attack.
    """
    by_setting: dict[Setting, list[Found]] = {}
    for own in found:
        by_setting.setdefault(own.setting, []).append(own)
    plain = [own.right / own.judged for own in by_setting.pop(PLAIN)]
    lost = {
        setting: [100 * (before - each.right / each.judged) for before, each in zip(plain, own, strict=True)]
        for setting, own in by_setting.items()
    }
    robust = {setting: fmean(each.robust / each.attacked for each in own) for setting, own in by_setting.items()}
    chosen = {}
    for name, (points, passes) in TOLERANCE.items():
        votes = {setting: own for setting, own in by_setting.items() if name in ONE_DRAW or not setting.once}
        quick = [setting for setting, own in votes.items() if fmean(each.passes for each in own) <= passes]
        if not quick:
            raise SystemExit(f"{name}: no setting costs at most {passes} passes")
        allowed = [setting for setting in quick if fmean(lost[setting]) <= points and max(lost[setting]) <= ANYWHERE]
        most_accurate = min(quick, key=lambda setting: fmean(lost[setting]))
        chosen[name] = max(allowed, key=lambda setting: robust[setting], default=most_accurate)
    return chosen


if __name__ == "__main__":
    main()
