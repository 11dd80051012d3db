r"""What noise, masks and votes cost and protect, and the profiles `fast`, `balanced`, `robust` chosen by it.

    RSMI_DATA=... RSMI_MODELS=... python benchmarks/profiles.py --work runs/profiles --out results/profiles

Every setting is trained on three data sets with two encoders and attacked on dev texts with PWWS and DeepWordBug; a
text counts as robust if it is right under both. Under attack, copies are classified in 8 bits, and of a text the first
24 words are read. The rule below then names the profiles, and what it names is attacked once more, on test texts.
Whatever is finished is left alone, so that an interrupted run goes on. Writes records, profiles.json, trade-off.svg and
README.md.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from environment import environment
from profiles_page import TOLERANCE, page, trade_off
from rsmi.evaluation.accuracy import measure_accuracy
from rsmi.evaluation.analyses import inference_times
from rsmi.evaluation.jobs import Job
from rsmi.evaluation.running import run_job
from rsmi.evaluation.runs import Run, worst_case
from rsmi.opening import open_classifier

ATTACKS = ("pwws", "deepwordbug")
ENCODERS = {"minilm": "minilm", "granite-30m": "roberta-granite-30m"}
DATA = {"mr": "mr", "ag_news": "ag_news", "sms_spam": "sms_spam.csv.gz"}
TRAINING = ("--limit", 1500, "--epochs", 2, "--max-length", 64, "--group-by-length")
JUDGED, TIMED, REPEATS, WORDS = 300, 32, 5, 24
"""Texts of the accuracy; texts and rounds of the time; words of a text that are read and attacked."""


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
        return {"two_step": False, "first_votes": 1} if self.once else {}


PLAIN = Setting()
SETTINGS = (
    PLAIN,
    *(Setting(noise, once=once) for noise in (0.2, 0.4, 0.8) for once in (True, False)),
    *(Setting(noise, masks) for noise in (0.4, 0.8) for masks in (1, 2)),
)
Place = tuple[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of models")
    parser.add_argument("--out", type=Path, required=True, help="folder of records and page")
    parser.add_argument("--num", type=int, default=40, help="dev texts attacked, of each data set")
    parser.add_argument("--test-num", type=int, default=60, help="test texts attacked, of each data set")
    options = parser.parse_args()
    dev = measure(options.work, options.out, "dev", options.num, SETTINGS)
    chosen = choose(dev)
    named = tuple(setting for setting in SETTINGS if setting in (PLAIN, *chosen.values()))
    test = measure(options.work, options.out, "test", options.test_num, named)
    result = {
        "dev": [about.to_dict() for about in dev],
        "test": [about.to_dict() for about in test],
        "profiles": {name: setting.training | setting.asking for name, setting in chosen.items()},
        "names": {name: setting.name for name, setting in chosen.items()},
        "training": [*map(str, TRAINING)],
        "seed": 0,
        "environment": environment(),
    }
    (options.out / "profiles.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (options.out / "README.md").write_text(page(result), encoding="utf-8")
    (options.out / "trade-off.svg").write_text(trade_off(result), encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Measured:
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


def measure(work: Path, out: Path, split: str, num: int, settings: Iterable[Setting]) -> list[Measured]:
    """Train, attack and time every setting at every place."""
    places = [(data, encoder) for data in DATA for encoder in ENCODERS]
    found = []
    for (data, encoder), setting in tqdm([(place, own) for place in places for own in settings], split):
        folder = out / "runs" / data / ENCODERS[encoder]
        models = {own: trained(work, data, encoder, own) for own in (PLAIN, setting)}
        robust = attacked(models[setting], data, setting, split, num, folder)
        clean = accuracy(models, data, setting, split, folder / f"{file_name(setting)}.{split}.json")
        found.append(
            Measured(setting=setting, data=data, encoder=encoder, robust=sum(robust), attacked=len(robust), **clean)
        )
    return found


def trained(work: Path, data: str, encoder: str, setting: Setting) -> Path:
    """Train a model, unless it is there."""
    kind = "finetune" if setting == PLAIN else f"noise-{setting.noise}-masks-{setting.masks}"
    model = work / data / ENCODERS[encoder] / kind
    if not model.exists():
        base = encoder if encoder == "minilm" else str(Path(os.environ["RSMI_MODELS"]) / ENCODERS[encoder])
        if setting == PLAIN:
            own: list[object] = ["--method", "finetune", "--learning-rate", 5e-5]
        else:
            fields = setting.training.items()
            own = ["--learning-rate", 1e-4, *(word for name, value in fields for word in ("--set", f"{name}={value}"))]
        words = ("train", source(data), "--base", base, *own, *TRAINING, "--out", model, "--resume")
        subprocess.run([sys.executable, "-m", "rsmi", *map(str, words)], check=True)
    return model


def attacked(model: Path, data: str, setting: Setting, split: str, num: int, folder: Path) -> tuple[bool, ...]:
    """Attack a model and return whether each text was answered right and stayed so under all attacks."""
    runs = []
    for attack in ATTACKS:
        file = folder / f"{file_name(setting)}.{split}.{attack}.jsonl"
        job = Job(
            model=str(model),
            data=source(data),
            attack=attack,
            split=split,
            num=num,
            max_words=WORDS,
            config=setting.asking,
            fresh_draws=20,
            backend="torch" if setting == PLAIN else "int8",
            explained=False,
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        if not complete(file, num):
            for _ in run_job(job.open(), file, workers=2):
                pass
        runs.append(Run.read(file))
    return worst_case(runs)


def complete(file: Path, num: int) -> bool:
    """Whether a file holds its line about the run and every record."""
    return file.exists() and len(file.read_text(encoding="utf-8").splitlines()) == num + 1


def accuracy(models: Mapping[Setting, Path], data: str, setting: Setting, split: str, file: Path) -> dict[str, Any]:
    """Return right answers on more texts, and what a prediction costs; once."""
    if not file.exists():
        job = Job(
            model=str(models[setting]), data=source(data), split=split, num=JUDGED, sample_seed=1, max_words=WORDS
        )
        rows, classifier = job.sample(), open_classifier(job.model, config=setting.asking, seed=0, progress=False)
        plain = open_classifier(str(models[PLAIN]), seed=0, progress=False)
        times = inference_times({"plain": plain, "own": classifier}, rows.texts[:TIMED], REPEATS)
        found = measure_accuracy(classifier, rows.texts, rows.labels)
        ratios = sorted(times[1].ratios)
        made = {"right": found.correct, "judged": found.total, "passes": ratios[len(ratios) // 2]}
        file.write_text(json.dumps(made) + "\n", encoding="utf-8")
    return dict(json.loads(file.read_text(encoding="utf-8")))


def choose(measured: Iterable[Measured]) -> dict[str, Setting]:
    """Return, for each profile, the setting that holds up best in the mean among those that it allows."""
    by_setting: dict[Setting, list[Measured]] = {}
    for own in measured:
        by_setting.setdefault(own.setting, []).append(own)
    plain = fmean(own.right / own.judged for own in by_setting.pop(PLAIN))
    chosen = {}
    for name, (points, passes) in TOLERANCE.items():
        allowed = [
            setting
            for setting, own in by_setting.items()
            if 100 * (plain - fmean(each.right / each.judged for each in own)) <= points
            and fmean(each.passes for each in own) <= passes
        ]
        if not allowed:
            raise SystemExit(f"{name}: no setting costs at most {points} points and {passes} passes")
        chosen[name] = max(allowed, key=lambda own: fmean(each.robust / each.attacked for each in by_setting[own]))
    return chosen


def source(data: str) -> str:
    """Return what load_data takes."""
    return DATA[data] if DATA[data] == data else str(Path(os.environ["RSMI_DATA"]) / DATA[data])


def file_name(setting: Setting) -> str:
    """Return the name of a setting as part of a file's."""
    return setting.name.replace(",", "").replace(" ", "-")


if __name__ == "__main__":
    main()
