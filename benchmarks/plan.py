r"""Plans against what runs then took: is `rsmi doctor --plan` within 30 %?

    OMP_WAIT_POLICY=PASSIVE python benchmarks/plan.py --model runs/demo/rsmi --data mr --num 100 \
        --out benchmarks/results/plan

Calibrates on the first texts of a sample in one process, as `rsmi doctor --plan` does, then runs the whole sample.
Writes OUT.json and OUT.md.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from environment import environment, save
from rsmi.evaluation.jobs import Job
from rsmi.evaluation.planning import plan_attack, plan_predictions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="runs/demo/rsmi")
    parser.add_argument("--data", default="mr")
    parser.add_argument("--attack", default="pwws")
    parser.add_argument("--num", type=int, default=100, help="texts attacked; ten times as many are classified")
    parser.add_argument("--calibrate", type=int, default=32)
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    job = Job(model=options.model, data=options.data, attack=options.attack, num=options.num)
    opened = job.open()
    plan = plan_attack(opened.run, opened.sample, options.calibrate)
    started = time.perf_counter()
    records = dict(opened.run(range(len(opened.sample))))
    rows = [row("attack", plan.to_dict(), time.perf_counter() - started)]
    rows[0]["queries"] = sum(record.queries for record in records.values())
    texts = job.load("test").take(10 * options.num, 0)
    plan = plan_predictions(opened.classifier.predict, texts, options.calibrate)
    started = time.perf_counter()
    opened.classifier.predict(texts.texts)
    rows.append(row("predictions", plan.to_dict(), time.perf_counter() - started))
    found = {"rows": rows, "settings": vars(options) | {"out": str(options.out)}, "environment": environment()}
    save(options.out, found, page(found))


def row(what: str, plan: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return a plan beside what the run took."""
    return {"what": what, "plan": plan, "seconds": seconds, "ratio": plan["seconds"] / seconds}


def page(found: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    env, settings = found["environment"], found["settings"]
    lines = [
        "# Plans against runs",
        "",
        f"{settings['attack']} on {settings['data']}, {settings['calibrate']} texts calibrated, torch "
        f"{env['versions']['torch']}, commit {env['commit']}. `python benchmarks/plan.py`.",
        "",
        "| What | Texts | Planned s (95 % interval) | Took s | Planned / took |",
        "|---|---|---|---|---|",
    ]
    for own in found["rows"]:
        plan = own["plan"]
        lines.append(
            f"| {own['what']} | {plan['inputs']} | {plan['seconds']:.1f} ({plan['low']:.1f} to {plan['high']:.1f}) | "
            f"{own['seconds']:.1f} | {own['ratio']:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
