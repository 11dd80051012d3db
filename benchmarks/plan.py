r"""Plans against what runs then took: is `rsmi doctor --plan` within 30 %?

    OMP_WAIT_POLICY=PASSIVE python benchmarks/plan.py --model runs/demo/rsmi --data mr --num 100 \
        --out benchmarks/results/plan

Calibrates on the first texts of a sample in one process, as `rsmi doctor --plan` does (predictions on 256), then runs
the whole sample. Writes OUT.json and OUT.md.
"""

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

from environment import environment, save
from rsmi.evaluation.jobs import Job
from rsmi.evaluation.planning import plan_attack, plan_predictions

PREDICTED = 256  # texts that predictions are calibrated on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="runs/demo/rsmi")
    parser.add_argument("--data", default="mr")
    parser.add_argument("--attack", default="pwws")
    parser.add_argument("--num", type=int, default=100, help="texts attacked; ten times as many are classified")
    parser.add_argument("--calibrate", type=int, default=32)
    parser.add_argument("--only", choices=["attack", "predictions"], help="the other row is taken from OUT.json")
    parser.add_argument("--out", type=Path, required=True, help="result, without an ending")
    options = parser.parse_args()
    known = {} if options.only is None else json.loads(options.out.with_suffix(".json").read_text(encoding="utf-8"))
    job = Job(model=options.model, data=options.data, attack=options.attack, num=options.num)
    rows = {own["what"]: own for own in known.get("rows", ())}
    if options.only != "predictions":
        rows["attack"] = attacked(job, options.calibrate)
    if options.only != "attack":
        rows["predictions"] = predicted(job, options.num)
    settings = vars(options) | {"out": str(options.out)}
    found = {"rows": list(rows.values()), "settings": settings, "environment": environment()}
    save(options.out, found, page(found))


def attacked(job: Job, calibrate: int) -> dict[str, Any]:
    """Plan and run the attack."""
    opened = job.open()
    plan = plan_attack(opened.run, opened.sample, calibrate)
    started = time.perf_counter()
    records = dict(opened.run(range(len(opened.sample))))
    found = row("attack", plan.to_dict(), time.perf_counter() - started)
    return {**found, "queries": sum(record.queries for record in records.values())}


def predicted(job: Job, num: int) -> dict[str, Any]:
    """Plan and run predictions of ten times as many texts."""
    texts, classifier = job.load("test").take(10 * num, 0), job.classifier()
    plan = plan_predictions(classifier.predict, texts, PREDICTED)
    started = time.perf_counter()
    classifier.predict(texts.texts)
    return row("predictions", plan.to_dict(), time.perf_counter() - started)


def row(what: str, plan: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return a plan beside what the run took."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10  # Linux counts in KiB
    return {"what": what, "plan": plan, "seconds": seconds, "ratio": plan["seconds"] / seconds, "peak_mib": held}


def page(found: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    env, settings = found["environment"], found["settings"]
    lines = [
        "# Plans against runs",
        "",
        f"{settings['attack']} on {settings['data']}, torch {env['versions']['torch']}, commit {env['commit']}. "
        "`python benchmarks/plan.py`.",
        "",
        "| What | Texts | Calibrated on | Planned s (95 % interval) | Took s | Planned / took "
        "| Planned MiB | Held MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for own in found["rows"]:
        plan = own["plan"]
        held = f"{own['peak_mib']:.0f}" if "peak_mib" in own else "not measured"
        planned = f"{plan['seconds']:.1f} ({plan['low']:.1f} to {plan['high']:.1f})"
        lines.append(
            f"| {own['what']} | {plan['inputs']} | {plan['calibrated']} | {planned} | {own['seconds']:.1f} | "
            f"{own['ratio']:.2f} | {plan['peak_mib']:.0f} | {held} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
