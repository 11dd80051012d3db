"""Put the comparisons of compare.py into one table, with the geometric mean of the time outside the models.

python benchmarks/parity/summary.py benchmarks/results/parity --out benchmarks/results/parity/summary.md
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

TIMED = ("textfooler-ag_news", "textfooler-imdb", "pwws-ag_news", "pwws-imdb")
"""Comparisons whose time outside the models is averaged."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder of compare.py's JSON files")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    found = {path.stem: json.loads(path.read_text()) for path in sorted(options.results.glob("*-*.json"))}
    options.out.write_text(page(found), encoding="utf-8")
    print(page(found))


def page(found: dict[str, dict[str, Any]]) -> str:
    """Return the table as Markdown."""
    lines = [
        "# TextAttack 0.3.11 against the native engine",
        "",
        "Same victim, texts and resources; CPU seconds of one thread each. `make parity`",
        "",
        "| | n | Same outcome, text and queries | Queries | Outside the models: TextAttack, ours (CPU s) | ratio "
        "| All: TextAttack, ours (CPU s) | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, result in found.items():
        theirs, ours = result["oracle"]["cpu_seconds"], result["ours"]["cpu_seconds"]
        lines.append(
            f"| {name} | {result['n']} | {result['equal']['all']} | {result['ours']['queries']} "
            f"| {theirs['outside']:.1f}, {ours['outside']:.2f} | {ratio(result, 'outside'):.1f} "
            f"| {theirs['total']:.0f}, {ours['total']:.0f} | {ratio(result, 'total'):.2f} |"
        )
    timed = [ratio(found[name], "outside") for name in TIMED if name in found]
    if len(timed) == len(TIMED):
        mean = math.exp(sum(map(math.log, timed)) / len(timed))
        lines += ["", f"Geometric mean of the ratios outside the models, {', '.join(TIMED)}: **{mean:.1f}**"]
    return "\n".join(lines) + "\n"


def ratio(result: dict[str, Any], part: str) -> float:
    """Return how much longer TextAttack took."""
    return float(result["oracle"]["cpu_seconds"][part] / result["ours"]["cpu_seconds"][part])


if __name__ == "__main__":
    main()
